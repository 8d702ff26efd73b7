"""Lets tests import `support`, what several of them share."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
