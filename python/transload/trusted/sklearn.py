"""scikit-learn: estimators and what they hold inside, each read before it got here (`scripts/trust_candidates.py` finds them).

Estimators, and everything else that holds memory which compiled code indexes without looking (trees, k-d trees, metrics), are rebuilt by
`transload.adapters.sklearn`, which looks at their state first; their own `__setstate__`, which warns when the version differs, is called there.
What is made by its name here are classes written in Python whose state is data.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

# Not in NAMES: `transload.adapters.sklearn` makes them, and looks at their state.
ESTIMATORS: dict[str, str] = {
    "sklearn.calibration": "CalibratedClassifierCV _SigmoidCalibration _TemperatureScaling",
    "sklearn.cluster._affinity_propagation": "AffinityPropagation",
    "sklearn.cluster._agglomerative": "AgglomerativeClustering FeatureAgglomeration",
    "sklearn.cluster._bicluster": "SpectralBiclustering SpectralCoclustering",
    "sklearn.cluster._birch": "Birch",
    "sklearn.cluster._bisect_k_means": "BisectingKMeans",
    "sklearn.cluster._dbscan": "DBSCAN",
    "sklearn.cluster._hdbscan.hdbscan": "HDBSCAN",
    "sklearn.cluster._kmeans": "KMeans MiniBatchKMeans",
    "sklearn.cluster._mean_shift": "MeanShift",
    "sklearn.cluster._optics": "OPTICS",
    "sklearn.cluster._spectral": "SpectralClustering",
    "sklearn.compose._column_transformer": "ColumnTransformer",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.covariance._elliptic_envelope": "EllipticEnvelope",
    "sklearn.covariance._empirical_covariance": "EmpiricalCovariance",
    "sklearn.covariance._graph_lasso": "GraphicalLasso GraphicalLassoCV",
    "sklearn.covariance._robust_covariance": "MinCovDet",
    "sklearn.covariance._shrunk_covariance": "LedoitWolf OAS ShrunkCovariance",
    "sklearn.cross_decomposition._pls": "CCA PLSCanonical PLSRegression PLSSVD",
    "sklearn.decomposition._dict_learning": "DictionaryLearning MiniBatchDictionaryLearning SparseCoder",
    "sklearn.decomposition._factor_analysis": "FactorAnalysis",
    "sklearn.decomposition._fastica": "FastICA",
    "sklearn.decomposition._incremental_pca": "IncrementalPCA",
    "sklearn.decomposition._kernel_pca": "KernelPCA",
    "sklearn.decomposition._lda": "LatentDirichletAllocation",
    "sklearn.decomposition._nmf": "MiniBatchNMF NMF",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._sparse_pca": "MiniBatchSparsePCA SparsePCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor RandomTreesEmbedding",
    "sklearn.ensemble._gb": "GradientBoostingClassifier GradientBoostingRegressor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": "HistGradientBoostingClassifier HistGradientBoostingRegressor",
    "sklearn.ensemble._iforest": "IsolationForest",
    "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
    "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "sklearn.feature_extraction._dict_vectorizer": "DictVectorizer",
    "sklearn.feature_extraction._hash": "FeatureHasher",
    "sklearn.feature_extraction.image": "PatchExtractor",
    "sklearn.feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.feature_selection._from_model": "SelectFromModel",
    "sklearn.feature_selection._rfe": "RFE RFECV",
    "sklearn.feature_selection._sequential": "SequentialFeatureSelector",
    "sklearn.feature_selection._univariate_selection": "GenericUnivariateSelect SelectFdr SelectFpr SelectFwe SelectKBest SelectPercentile",
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.frozen._frozen": "FrozenEstimator",
    "sklearn.gaussian_process._gpc": "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process._gpr": "GaussianProcessRegressor",
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.impute._iterative": "IterativeImputer",
    "sklearn.impute._knn": "KNNImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler",
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent":
        "ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV",
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._least_angle": "Lars LarsCV LassoLars LassoLarsCV LassoLarsIC",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._omp": "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV",
    "sklearn.linear_model._passive_aggressive": "PassiveAggressiveClassifier PassiveAggressiveRegressor",
    "sklearn.linear_model._perceptron": "Perceptron",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ransac": "RANSACRegressor",
    "sklearn.linear_model._ridge": "Ridge RidgeCV RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDOneClassSVM SGDRegressor",
    "sklearn.linear_model._theil_sen": "TheilSenRegressor",
    "sklearn.manifold._classical_mds": "ClassicalMDS",
    "sklearn.manifold._isomap": "Isomap",
    "sklearn.manifold._locally_linear": "LocallyLinearEmbedding",
    "sklearn.manifold._mds": "MDS",
    "sklearn.manifold._spectral_embedding": "SpectralEmbedding",
    "sklearn.manifold._t_sne": "TSNE",
    "sklearn.mixture._bayesian_mixture": "BayesianGaussianMixture",
    "sklearn.mixture._gaussian_mixture": "GaussianMixture",
    "sklearn.model_selection._classification_threshold": "FixedThresholdClassifier TunedThresholdClassifierCV",
    "sklearn.model_selection._search": "GridSearchCV RandomizedSearchCV",
    "sklearn.model_selection._search_successive_halving": "HalvingGridSearchCV HalvingRandomSearchCV",
    "sklearn.multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier _ConstantPredictor",
    "sklearn.multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.neighbors._classification": "KNeighborsClassifier RadiusNeighborsClassifier",
    "sklearn.neighbors._graph": "KNeighborsTransformer RadiusNeighborsTransformer",
    "sklearn.neighbors._kde": "KernelDensity",
    "sklearn.neighbors._lof": "LocalOutlierFactor",
    "sklearn.neighbors._nca": "NeighborhoodComponentsAnalysis",
    "sklearn.neighbors._nearest_centroid": "NearestCentroid",
    "sklearn.neighbors._regression": "KNeighborsRegressor RadiusNeighborsRegressor",
    "sklearn.neighbors._unsupervised": "NearestNeighbors",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._rbm": "BernoulliRBM",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data":
        "Binarizer KernelCenterer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer RobustScaler StandardScaler",
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder MultiLabelBinarizer",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures SplineTransformer",
    "sklearn.preprocessing._target_encoder": "TargetEncoder",
    "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
    "sklearn.semi_supervised._label_propagation": "LabelPropagation LabelSpreading",
    "sklearn.semi_supervised._self_training": "SelfTrainingClassifier",
    "sklearn.svm._classes": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "sklearn.tree._classes": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
}

_MADE: dict[str, str] = {
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss":
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss HalfSquaredError HalfTweedieLoss "
        "HalfTweedieLossIdentity HuberLoss PinballLoss",
    "sklearn.calibration": "_CalibratedClassifier",
    "sklearn.cluster._birch": "_CFNode _CFSubcluster",
    "sklearn.cluster._bisect_k_means": "_BisectingTree",
    "sklearn.compose._column_transformer": "make_column_selector",
    "sklearn.gaussian_process.kernels":
        "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel",
    "sklearn.impute._iterative": "_ImputerTriplet",
    "sklearn.metrics._scorer": "_CurveScorer _PassthroughScorer _Scorer",
    "sklearn.model_selection._classification_threshold": "_CurveScorer",  # its home in scikit-learn 1.5
    "sklearn.model_selection._search": "ParameterGrid ParameterSampler",
    "sklearn.model_selection._split":
        "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut LeavePGroupsOut LeavePOut PredefinedSplit RepeatedKFold "
        "RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.utils._bunch": "Bunch",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}

_CALLED: dict[str, str] = {
    "sklearn.linear_model._sgd_fast": "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge",
}

_FUNCTIONS: dict[str, str] = {
    "sklearn.cluster._kmeans": "_kmeans_single_lloyd",
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_regression r_regression",
    "sklearn.metrics._classification":
        "accuracy_score balanced_accuracy_score brier_score_loss d2_brier_score d2_log_loss_score f1_score fbeta_score jaccard_score "
        "log_loss matthews_corrcoef precision_score recall_score",
    "sklearn.metrics._ranking": "average_precision_score roc_auc_score top_k_accuracy_score",
    "sklearn.metrics._regression":
        "d2_absolute_error_score explained_variance_score max_error mean_absolute_error mean_absolute_percentage_error mean_gamma_deviance "
        "mean_poisson_deviance mean_squared_error mean_squared_log_error median_absolute_error r2_score root_mean_squared_error "
        "root_mean_squared_log_error",
    "sklearn.metrics._scorer": "negative_likelihood_ratio positive_likelihood_ratio",
    "sklearn.metrics.cluster._supervised":
        "adjusted_mutual_info_score adjusted_rand_score completeness_score fowlkes_mallows_score homogeneity_score mutual_info_score "
        "normalized_mutual_info_score rand_score v_measure_score",
    "sklearn.model_selection._split": "KFold StratifiedKFold",
    "sklearn.utils.validation": "check_array",
}

NAMES: dict[str, int] = {}
for _table, _roles in ((_MADE, MAKE), (_CALLED, CALL), (_FUNCTIONS, HAND_ON)):
    for _module, _names in _table.items():
        for _name in _names.split():
            NAMES[f"{_module}:{_name}"] = NAMES.get(f"{_module}:{_name}", 0) | _roles
