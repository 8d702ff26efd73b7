"""Lets tests import `support`, what several of them share."""

import os
import sys

# Threads of OpenMP wait by spinning, which on a busy machine costs minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
