"""Every public estimator of scikit-learn, fitted on small data, and what people build of them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import sklearn
from sklearn import (
    calibration, cluster, compose, covariance, cross_decomposition, datasets, decomposition, discriminant_analysis, dummy, ensemble, feature_extraction,
    feature_selection, gaussian_process, impute, inspection, isotonic, kernel_approximation, kernel_ridge, linear_model, manifold, mixture, model_selection,
    multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, random_projection, semi_supervised, svm, tree,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.utils import all_estimators

_ = (calibration, covariance, cross_decomposition, decomposition, discriminant_analysis, dummy, feature_extraction, inspection, isotonic,
     kernel_approximation, kernel_ridge, manifold, mixture, naive_bayes, random_projection, semi_supervised)

SEED = 0


@functools.cache
def data() -> tuple[Any, Any, Any]:
    """X (60, 6) of positive floats, y of three classes, z of floats."""
    rng = np.random.RandomState(SEED)
    x = rng.rand(60, 6) + 0.1
    y = np.arange(60) % 3
    x[:, 0] += y
    return x, y, x[:, 0] * 2 + rng.rand(60)


def _made(name: str, cls: Any) -> Any:
    """An unfitted instance with parameters that fit in little time."""
    few: dict[str, Any] = {"n_estimators": 3, "max_iter": 20, "n_init": 1}
    lin = linear_model.LogisticRegression()
    ridge = linear_model.Ridge()
    special: dict[str, Any] = {
        "ClassifierChain": lambda: cls(lin), "MultiOutputClassifier": lambda: cls(lin), "MultiOutputRegressor": lambda: cls(ridge),
        "RegressorChain": lambda: cls(ridge), "OneVsOneClassifier": lambda: cls(lin), "OneVsRestClassifier": lambda: cls(lin),
        "OutputCodeClassifier": lambda: cls(lin, random_state=0), "SelfTrainingClassifier": lambda: cls(lin), "SelectFromModel": lambda: cls(lin), "RFE": lambda: cls(lin),
        "RFECV": lambda: cls(lin, cv=2), "SequentialFeatureSelector": lambda: cls(lin, n_features_to_select=2, cv=2), "FixedThresholdClassifier": lambda: cls(lin),
        "TunedThresholdClassifierCV": lambda: cls(lin, cv=2),
        "GridSearchCV": lambda: cls(lin, {"C": [0.1, 1.0]}, cv=2), "HalvingGridSearchCV": lambda: cls(lin, {"C": [0.1, 1.0]}, cv=2),
        "RandomizedSearchCV": lambda: cls(lin, {"C": [0.1, 1.0]}, n_iter=2, cv=2, random_state=0),
        "HalvingRandomSearchCV": lambda: cls(lin, {"C": [0.1, 1.0]}, cv=2, random_state=0),
        "StackingClassifier": lambda: cls([("a", lin), ("b", tree.DecisionTreeClassifier())], cv=2),
        "StackingRegressor": lambda: cls([("a", ridge), ("b", tree.DecisionTreeRegressor())], cv=2),
        "VotingClassifier": lambda: cls([("a", lin), ("b", tree.DecisionTreeClassifier())]), "VotingRegressor": lambda: cls([("a", ridge), ("b", linear_model.Lasso())]),
        "ColumnTransformer": lambda: cls([("s", preprocessing.StandardScaler(), [0, 1]), ("m", preprocessing.MinMaxScaler(), slice(2, 4))], remainder="passthrough"),
        "FeatureUnion": lambda: cls([("s", preprocessing.StandardScaler()), ("p", decomposition.PCA(2))]),
        "Pipeline": lambda: cls([("s", preprocessing.StandardScaler()), ("l", lin)]), "TransformedTargetRegressor": lambda: cls(ridge, func=np.log1p, inverse_func=np.expm1),
        "SparseCoder": lambda: cls(np.eye(6)), "PatchExtractor": lambda: cls(patch_size=(2, 2), max_patches=2), "FrozenEstimator": lambda: cls(lin.fit(*data()[:2])),
        "CalibratedClassifierCV": lambda: cls(lin, cv=2), "FunctionTransformer": lambda: cls(np.log1p), "SpectralBiclustering": lambda: cls(n_clusters=2),
        "GaussianRandomProjection": lambda: cls(2, random_state=0), "SparseRandomProjection": lambda: cls(2, random_state=0), "TSNE": lambda: cls(perplexity=5, max_iter=250),
        "OrthogonalMatchingPursuitCV": lambda: cls(cv=2, max_iter=3), "GraphicalLassoCV": lambda: cls(cv=2, n_refinements=1), "LassoLarsIC": lambda: cls(),
    }
    if name in special:
        return special[name]()
    estimator = cls()
    known = estimator.get_params()
    few = {key: value for key, value in few.items() if key in known}
    if "random_state" in known:
        few["random_state"] = SEED
    if name in ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"):
        few["max_iter"] = 3
    if name in ("GaussianProcessClassifier", "Perceptron"):
        few.pop("max_iter", None)
    return estimator.set_params(**few)


def training(name: str, cls: Any) -> tuple[Any, ...]:
    """What the estimator of that name is fitted on: (X,) or (X, y)."""
    x, y, z = data()
    if name in ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer"):
        return (["red green", "green blue", "blue blue red", "red"] * 5,)
    if name == "FeatureHasher":
        return ([{"a": 1}, {"b": 2, "a": 1}],)
    if name == "DictVectorizer":
        return ([{"a": 1, "b": "x"}, {"a": 2, "c": 3}],)
    if name in ("LabelEncoder", "LabelBinarizer"):
        return (y,)
    if name == "MultiLabelBinarizer":
        return ([("a", "b"), ("c",)],)
    if name == "PatchExtractor":
        return (np.random.RandomState(0).rand(3, 5, 5),)
    if name == "IsotonicRegression":
        return x[:, 0], z
    if name in ("MultiOutputClassifier", "ClassifierChain"):
        return x, np.c_[y > 0, y > 1].astype(int)
    if name == "MultiOutputRegressor" or name == "RegressorChain" or name.startswith("MultiTask"):
        return x, np.c_[z, -z]
    if name in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
        return x, (y > 0).astype(int)
    if name in ("CCA", "PLSCanonical", "PLSRegression", "PLSSVD"):
        return x, np.c_[z, z * z + x[:, 1]]
    if name in ("SelfTrainingClassifier", "LabelPropagation", "LabelSpreading"):
        return x, np.where(np.arange(60) % 4 == 0, -1, y)
    if name in ("AdditiveChi2Sampler", "SkewedChi2Sampler"):
        return (x,)
    if issubclass(cls, sklearn.base.RegressorMixin):
        return x, z
    if name == "KernelCenterer":
        return (x @ x.T,)
    return x, y


@functools.cache
def _public() -> dict[str, Any]:
    return dict(all_estimators())


def names() -> list[str]:
    """Names of all public estimators."""
    return sorted(_public())


def fitted(name: str) -> Any:
    """The estimator of that name, fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cls = _public()[name]
        return _made(name, cls).fit(*training(name, cls))


def arguments(name: str) -> tuple[Any, ...]:
    """What `fitted(name)` was fitted on."""
    return training(name, _public()[name])


def _more() -> dict[str, Any]:
    """Compositions, and the parameters that bring other classes along."""
    x, y, z = data()
    kernels = gaussian_process.kernels
    text = ["red green", "green blue", "blue blue red", "red"] * 5
    made: dict[str, Any] = {
        "search over a pipeline": lambda: model_selection.GridSearchCV(
            pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()), {"svc__C": [1, 2]}, cv=model_selection.StratifiedKFold(2, shuffle=True, random_state=1),
            scoring="accuracy", ).fit(x, y),
        "column transformer of encoders": lambda: compose.make_column_transformer(
            (preprocessing.OneHotEncoder(handle_unknown="ignore"), [0]), (preprocessing.OrdinalEncoder(), [1]), ("drop", [2]), remainder=preprocessing.KBinsDiscretizer(3)).fit(x.round(1)),
        "column selector": lambda: compose.ColumnTransformer([("n", preprocessing.StandardScaler(), compose.make_column_selector(dtype_include=float))]).fit(
            __import__("pandas").DataFrame(x, columns=list("abcdef"))),
        "encoder with categories": lambda: preprocessing.OneHotEncoder(categories=[["a", "b"], ["x", "y"]]).fit([["a", "x"], ["b", "y"]]),
        "target encoder": lambda: preprocessing.TargetEncoder(cv=2).fit(x.round(0), y),
        "text pipeline": lambda: pipeline.make_pipeline(feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2)), naive_bayes.MultinomialNB()).fit(text, np.arange(20) % 2),
        "hashing union": lambda: pipeline.make_union(feature_extraction.text.HashingVectorizer(n_features=16), feature_extraction.text.CountVectorizer()).fit(text),
        "gp kernels": lambda: gaussian_process.GaussianProcessRegressor(
            kernels.ConstantKernel() * kernels.RBF() + kernels.WhiteKernel() + kernels.Matern() * kernels.DotProduct() + kernels.RationalQuadratic() + kernels.ExpSineSquared() ** 2
            + kernels.PairwiseKernel(), optimizer=None, alpha=100.0).fit(x, z),
        "gp compound": lambda: kernels.CompoundKernel([kernels.RBF(), kernels.Sum(kernels.RBF(), kernels.RBF())]),
        "gp classifier": lambda: gaussian_process.GaussianProcessClassifier(kernels.RBF()).fit(x, y),
        "splitters": lambda: [
            model_selection.KFold(3), model_selection.GroupKFold(2), model_selection.ShuffleSplit(2), model_selection.StratifiedShuffleSplit(2), model_selection.TimeSeriesSplit(2),
            model_selection.RepeatedKFold(), model_selection.RepeatedStratifiedKFold(), model_selection.LeaveOneOut(), model_selection.LeavePOut(2), model_selection.LeaveOneGroupOut(),
            model_selection.LeavePGroupsOut(2), model_selection.GroupShuffleSplit(2), model_selection.StratifiedGroupKFold(2), model_selection.PredefinedSplit([0, 1, 0, 1]),
            model_selection.StratifiedKFold(2), model_selection.ParameterGrid({"a": [1]}), model_selection.ParameterSampler({"a": [1]}, 2),
        ],
        "scorers": lambda: [sklearn.metrics.get_scorer(name) for name in sklearn.metrics.get_scorer_names()] + [
            sklearn.metrics.make_scorer(sklearn.metrics.fbeta_score, beta=2)],
        "distances": lambda: [sklearn.metrics.DistanceMetric.get_metric(m) for m in ("euclidean", "manhattan", "chebyshev", "hamming", "canberra", "braycurtis", "jaccard", "haversine")]
            + [sklearn.metrics.DistanceMetric.get_metric("minkowski", p=3), sklearn.metrics.DistanceMetric.get_metric("minkowski", p=3, w=np.ones(3)),
               sklearn.metrics.DistanceMetric.get_metric("seuclidean", V=np.ones(3)), sklearn.metrics.DistanceMetric.get_metric("mahalanobis", V=np.eye(3)),
               sklearn.metrics.DistanceMetric.get_metric("euclidean", dtype=np.float32)],
        "neighbour trees": lambda: [neighbors.KDTree(x), neighbors.BallTree(x), neighbors.KDTree(x, metric="minkowski", p=3), neighbors.BallTree(x, metric="haversine") if False else 0,
                                    neighbors.KDTree(x[:3], leaf_size=1)],
        "neighbours": lambda: [neighbors.NearestNeighbors(algorithm=a).fit(x) for a in ("kd_tree", "ball_tree", "brute")],
        "neighbours float32": lambda: [neighbors.NearestNeighbors(algorithm=a).fit(x.astype("f4")) for a in ("kd_tree", "ball_tree")],
        "sgd losses": lambda: [linear_model.SGDClassifier(loss=loss, random_state=0).fit(x, y) for loss in
                               ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron", "squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")],
        "sgd regressors": lambda: [linear_model.SGDRegressor(loss=loss, random_state=0).fit(x, z) for loss in
                                   ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")],
        "boosting losses": lambda: [ensemble.HistGradientBoostingRegressor(max_iter=2, **kw).fit(x, z) for kw in (
            {"loss": "squared_error"}, {"loss": "absolute_error"}, {"loss": "gamma"}, {"loss": "poisson"}, {"loss": "quantile", "quantile": 0.4})]
            + [ensemble.GradientBoostingRegressor(n_estimators=2, **kw).fit(x, z) for kw in (
                {"loss": "squared_error"}, {"loss": "absolute_error"}, {"loss": "huber"}, {"loss": "quantile"})]
            + [ensemble.GradientBoostingClassifier(n_estimators=2, loss="exponential").fit(x, y > 0), ensemble.HistGradientBoostingClassifier(max_iter=2).fit(x, y > 0)],
        "boosting categories": lambda: ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[1], monotonic_cst=[1, 0, 0, 0, 0, 0], interaction_cst="pairwise",
                                                                             early_stopping=True).fit(x.round(0), y > 0),
        "boosting init": lambda: ensemble.GradientBoostingClassifier(n_estimators=2, init=linear_model.LogisticRegression()).fit(x, y),
        "glm": lambda: [linear_model.PoissonRegressor().fit(x, z), linear_model.GammaRegressor().fit(x, z), linear_model.TweedieRegressor(power=1.5).fit(x, z),
                        linear_model.TweedieRegressor(power=3).fit(x, z), linear_model.TweedieRegressor(power=0).fit(x, z)],
        "svms": lambda: [svm.SVC(kernel=k, probability=False).fit(x, y) for k in ("rbf", "linear", "poly", "sigmoid")],
        "sparse svm": lambda: svm.SVC().fit(__import__("scipy.sparse").sparse.csr_matrix(x), y),
        "ada": lambda: ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=1), n_estimators=3, random_state=0).fit(x, y),
        "forest text labels": lambda: ensemble.RandomForestClassifier(3, random_state=np.random.RandomState(3)).fit(x, np.array(["a", "b", "c"])[y]),
        "forest missing": lambda: ensemble.ExtraTreesClassifier(3, random_state=0, monotonic_cst=[1, 0, 0, 0, 0, 0]).fit(np.where(x > 1, np.nan, x), y > 0),
        "forest multi": lambda: ensemble.RandomForestClassifier(3, random_state=0, bootstrap=True).fit(x, np.c_[y, y]),
        "tree criteria": lambda: [tree.DecisionTreeRegressor(criterion=c).fit(x, z) for c in ("squared_error", "friedman_mse", "absolute_error", "poisson")],
        "one-class": lambda: [ensemble.IsolationForest(n_estimators=3).fit(x), svm.OneClassSVM().fit(x), neighbors.LocalOutlierFactor(novelty=True).fit(x)],
        "birch": lambda: cluster.Birch(n_clusters=3, threshold=0.2).fit(x),
        "agglomerative": lambda: cluster.AgglomerativeClustering(connectivity=neighbors.kneighbors_graph(x, 5)).fit(x),
        "hdbscan": lambda: cluster.HDBSCAN(min_cluster_size=5).fit(x),
        "mlp": lambda: neural_network.MLPClassifier(hidden_layer_sizes=[4], max_iter=5, early_stopping=True).fit(x, y),
        "mlp sgd": lambda: neural_network.MLPRegressor(hidden_layer_sizes=[4], solver="sgd", max_iter=5).fit(x, z),
        "iterative imputer": lambda: impute.IterativeImputer(linear_model.BayesianRidge(), max_iter=2).fit(np.where(x > 1.5, np.nan, x)),
        "iterative imputer sampling": lambda: impute.IterativeImputer(sample_posterior=True, max_iter=2).fit(np.where(x > 1.5, np.nan, x)),
        "knn imputer": lambda: impute.KNNImputer().fit(np.where(x > 1.5, np.nan, x)),
        "simple imputer": lambda: impute.SimpleImputer(strategy="most_frequent", add_indicator=True).fit(np.where(x > 1.5, np.nan, x)),
        "selectors": lambda: [feature_selection.SelectKBest(f, k=2).fit(x, y) for f in (feature_selection.f_classif, feature_selection.chi2, feature_selection.mutual_info_classif)]
            + [feature_selection.SelectKBest(f, k=2).fit(x, z) for f in (feature_selection.f_regression, feature_selection.r_regression, feature_selection.mutual_info_regression)],
        "bunch": lambda: datasets.load_iris(),
        "partial dependence": lambda: inspection.permutation_importance(linear_model.LinearRegression().fit(x, z), x, z, n_repeats=2, random_state=0),
        "spline": lambda: preprocessing.SplineTransformer().fit(x),
        "set_output": lambda: preprocessing.StandardScaler().set_output(transform="pandas").fit(x),
        "kde": lambda: [neighbors.KernelDensity(kernel=k).fit(x) for k in ("gaussian", "tophat")],
        "nca": lambda: neighbors.NeighborhoodComponentsAnalysis(max_iter=3).fit(x, y),
        "clone": lambda: sklearn.base.clone(ensemble.RandomForestClassifier()),
        "random generators": lambda: [np.random.RandomState(1), np.random.default_rng(1)],
        "unfitted": lambda: [cls() for _, cls in all_estimators() if not getattr(cls, "_required_parameters", None) and _no_arguments(cls)],
        "transformed target": lambda: compose.TransformedTargetRegressor(linear_model.Ridge(), transformer=preprocessing.QuantileTransformer(n_quantiles=10)).fit(x, z),
        "multiclass": lambda: multiclass.OneVsRestClassifier(svm.LinearSVC()).fit(x, y),
        "chain": lambda: multioutput.ClassifierChain(linear_model.LogisticRegression(), order="random", random_state=0).fit(x, np.c_[y > 0, y > 1]),
    }
    return made


def _no_arguments(cls: Any) -> bool:
    try:
        cls()
    except TypeError:
        return False
    return True


def more_names() -> list[str]:
    """Labels of the compositions."""
    return list(_more())


def more(label: str) -> Any:
    """The composition of that label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _more()[label]()


def _variants() -> dict[str, Any]:
    """Fitted otherwise than `fitted` does: other algorithms, losses, kernels, kinds of data."""
    x, y, z = data()
    sparse = __import__("scipy.sparse").sparse.csr_matrix(x)
    missing = np.where(x > 1.5, np.nan, x)
    text = np.array([["a", "x"], ["b", "y"], ["a", "y"], ["c", "x"]] * 5, dtype=object)
    two = np.c_[y, (y + 1) % 3]
    kernels = gaussian_process.kernels
    frame = __import__("pandas").DataFrame(x, columns=list("abcdef"))
    made: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "knn kd_tree": (neighbors.KNeighborsClassifier(algorithm="kd_tree"), (x, y)),
        "knn ball_tree": (neighbors.KNeighborsRegressor(algorithm="ball_tree", leaf_size=5, weights="distance"), (x, z)),
        "knn brute": (neighbors.KNeighborsClassifier(algorithm="brute"), (x, y)), "radius brute": (neighbors.RadiusNeighborsClassifier(radius=2.0, algorithm="brute"), (x, y)),
        "knn brute sparse": (neighbors.KNeighborsClassifier(algorithm="brute"), (sparse, y)),
        "knn many outputs": (neighbors.KNeighborsClassifier(), (x, two)),
        "radius ball_tree": (neighbors.RadiusNeighborsClassifier(radius=2.0, algorithm="ball_tree", outlier_label=0), (x, y)),
        "lof novelty": (neighbors.LocalOutlierFactor(novelty=True), (x,)),
        "kde ball_tree": (neighbors.KernelDensity(algorithm="ball_tree", kernel="tophat", metric="manhattan"), (x,)),
        "neighbours float32": (neighbors.NearestNeighbors(algorithm="kd_tree"), (x.astype("f4"),)),
        "neighbours seuclidean": (neighbors.NearestNeighbors(algorithm="ball_tree", metric="seuclidean", metric_params={"V": np.ones(6)}), (x,)),
        "svc probability sparse": (svm.SVC(kernel="poly"), (sparse, y)), "svc linear": (svm.SVC(kernel="linear", decision_function_shape="ovo"), (x, y)),
        "svr sparse": (svm.SVR(kernel="sigmoid"), (sparse, z)), "one-class sparse": (svm.OneClassSVM(), (sparse,)),
        "svc precomputed": (svm.SVC(kernel="precomputed"), (x @ x.T, y)),
        "forest many outputs": (ensemble.RandomForestClassifier(2, random_state=0), (x, two)),
        "forest text labels": (ensemble.ExtraTreesClassifier(2, random_state=0), (x, np.array(["a", "b", "c"])[y])),
        "forest missing": (ensemble.RandomForestRegressor(2, random_state=0), (missing, z)),
        "forest sparse": (ensemble.RandomForestClassifier(2, random_state=0), (sparse, y)),
        "tree monotonic": (tree.DecisionTreeRegressor(monotonic_cst=[1, 0, 0, 0, 0, -1], max_depth=3), (x, z)),
        "gradient boosting warm": (ensemble.GradientBoostingClassifier(n_estimators=2, warm_start=True, init=linear_model.LogisticRegression()), (x, y)),
        "gradient boosting huber": (ensemble.GradientBoostingRegressor(n_estimators=2, loss="huber", subsample=0.5, random_state=0), (x, z)),
        "gradient boosting zero": (ensemble.GradientBoostingRegressor(n_estimators=2, init="zero"), (x, z)),
        "hist categories": (ensemble.HistGradientBoostingClassifier(max_iter=2, categorical_features=[1], early_stopping=True), (x.round(0), y)),
        "hist text categories": (ensemble.HistGradientBoostingClassifier(max_iter=2, categorical_features="from_dtype"), (frame.assign(c=__import__("pandas").Categorical(["u", "v", "w"] * 20)), y)),
        "hist missing": (ensemble.HistGradientBoostingRegressor(max_iter=2, loss="poisson", warm_start=True), (missing, z)),
        "bagging": (ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=2), n_estimators=2, max_features=0.5, bootstrap_features=True, oob_score=True, random_state=0), (x, y)),
        "ada": (ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=1), n_estimators=2, random_state=0), (x, y)),
        "isolation forest of some": (ensemble.IsolationForest(n_estimators=2, max_features=0.5, random_state=0), (x,)),
        "voting soft": (ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())], voting="soft", weights=[1, 2]), (x, y)),
        "sgd averaged": (linear_model.SGDClassifier(loss="modified_huber", average=True, early_stopping=True, random_state=0), (x, y)),
        "sgd regressor adaptive": (linear_model.SGDRegressor(learning_rate="adaptive", early_stopping=True, random_state=0), (x, z)),
        "logistic multinomial": (linear_model.LogisticRegression(solver="saga", max_iter=5, warm_start=True), (x, y)),
        "lasso sparse": (linear_model.Lasso(alpha=0.01, precompute=True, warm_start=True), (x, z)),
        "mlp sgd": (neural_network.MLPClassifier(hidden_layer_sizes=[4, 3], solver="sgd", max_iter=3, early_stopping=True, warm_start=True), (x, y)),
        "gp regression kernels": (gaussian_process.GaussianProcessRegressor(
            kernels.ConstantKernel() * kernels.RBF([1.0] * 6) + kernels.WhiteKernel() + kernels.Matern() * kernels.DotProduct() + kernels.RationalQuadratic() + kernels.ExpSineSquared() ** 2
            + kernels.PairwiseKernel(), optimizer=None, alpha=100.0, normalize_y=True), (x[:20], z[:20])),
        "gp compound": (gaussian_process.GaussianProcessClassifier(kernels.RBF(), n_restarts_optimizer=0), (x[:20], y[:20])),
        "kernel pca": (decomposition.KernelPCA(2, kernel="rbf", fit_inverse_transform=True), (x,)),
        "nmf online": (decomposition.NMF(2, solver="mu", beta_loss="kullback-leibler", max_iter=5), (x,)),
        "lda online": (decomposition.LatentDirichletAllocation(2, learning_method="online", max_iter=2), (x,)),
        "dictionary omp": (decomposition.DictionaryLearning(3, transform_algorithm="omp", max_iter=3, random_state=0), (x,)),
        "dictionary lasso_cd": (decomposition.MiniBatchDictionaryLearning(3, transform_algorithm="lasso_cd", max_iter=3, random_state=0), (x,)),
        "one-hot text": (preprocessing.OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=6), (text,)),
        "ordinal text": (preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, max_categories=2), (text,)),
        "target encoder text": (preprocessing.TargetEncoder(cv=2, target_type="multiclass"), (text, np.arange(20) % 3)),
        "bins one-hot": (preprocessing.KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"), (x,)),
        "spline periodic": (preprocessing.SplineTransformer(extrapolation="periodic", sparse_output=True), (x,)),
        "polynomial sparse": (preprocessing.PolynomialFeatures(3, interaction_only=True), (sparse,)),
        "quantiles normal": (preprocessing.QuantileTransformer(n_quantiles=10, output_distribution="normal"), (x,)),
        "power box-cox": (preprocessing.PowerTransformer("box-cox"), (x,)),
        "label text": (preprocessing.LabelEncoder(), (np.array(["a", "b", "c"])[y],)),
        "label sparse": (preprocessing.LabelBinarizer(sparse_output=True), (y,)),
        "multilabel sparse": (preprocessing.MultiLabelBinarizer(sparse_output=True), ([("a", "b"), ("c",)],)),
        "knn imputer": (impute.KNNImputer(add_indicator=True), (missing,)),
        "simple imputer": (impute.SimpleImputer(strategy="most_frequent", add_indicator=True), (missing,)),
        "iterative imputer": (impute.IterativeImputer(max_iter=2, sample_posterior=True, add_indicator=True, n_nearest_features=2, random_state=0), (missing,)),
        "missing indicator": (impute.MissingIndicator(features="all", sparse=True), (missing,)),
        "tfidf words": (feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2), stop_words=["red"], max_features=4), (["red green", "green blue", "blue blue red", "red"] * 5,)),
        "count chars": (feature_extraction.text.CountVectorizer(analyzer="char_wb", binary=True, vocabulary={"r": 0, "e": 1}), (["red green", "green blue"],)),
        "patches": (feature_extraction.image.PatchExtractor(patch_size=(2, 3), random_state=0), (np.random.RandomState(0).rand(3, 5, 5),)),
        "columns": (compose.make_column_transformer(
            (preprocessing.OneHotEncoder(handle_unknown="ignore"), ["a"]), (preprocessing.OrdinalEncoder(), compose.make_column_selector(pattern="b")), ("drop", [2]), ("passthrough", slice(3, 5)),
            remainder=preprocessing.KBinsDiscretizer(3)), (frame.round(1),)),
        "union weights": (pipeline.FeatureUnion([("s", preprocessing.StandardScaler()), ("p", "passthrough"), ("n", "drop")], transformer_weights={"s": 2.0}), (x,)),
        "pipeline of many": (pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler(), decomposition.PCA(3), svm.SVC()), (missing, y)),
        "search random": (model_selection.RandomizedSearchCV(tree.DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, n_iter=2, cv=model_selection.StratifiedKFold(2), scoring="accuracy", random_state=0), (x, y)),
        "calibrated isotonic": (calibration.CalibratedClassifierCV(svm.LinearSVC(), method="isotonic", cv=2), (x, y)),
        "calibrated temperature": (calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), method="temperature", cv=2), (x, y)),
        "chain random": (multioutput.ClassifierChain(linear_model.LogisticRegression(), order="random", random_state=0), (x, np.c_[y > 0, y > 1].astype(int))),
        "rest of sparse labels": (multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), (x, np.c_[y > 0, y > 1].astype(int))),
        "output code trees": (multiclass.OutputCodeClassifier(tree.DecisionTreeClassifier(max_depth=2), random_state=0), (x, y)),
        "target transformer": (compose.TransformedTargetRegressor(linear_model.Ridge(), transformer=preprocessing.QuantileTransformer(n_quantiles=10)), (x, z)),
        "birch clusters": (cluster.Birch(n_clusters=3, threshold=0.2, branching_factor=5), (x,)),
        "agglomerative features": (cluster.FeatureAgglomeration(2, compute_distances=True), (x,)),
        "agglomerative connected": (cluster.AgglomerativeClustering(connectivity=neighbors.kneighbors_graph(x, 5), compute_distances=True), (x,)),
        "hdbscan medoids": (cluster.HDBSCAN(min_cluster_size=5, store_centers="both", copy=True), (x,)),
        "k-means sparse": (cluster.KMeans(3, n_init=1, random_state=0, algorithm="elkan"), (sparse,)),
        "bisecting": (cluster.BisectingKMeans(4, random_state=0), (x,)),
        "mixture tied": (mixture.GaussianMixture(2, covariance_type="tied", random_state=0, warm_start=True), (x,)),
        "mixture diag": (mixture.BayesianGaussianMixture(n_components=2, covariance_type="diag", max_iter=5, random_state=0), (x,)),
        "isomap": (manifold.Isomap(n_neighbors=8), (x,)), "lle": (manifold.LocallyLinearEmbedding(n_neighbors=8, method="modified", n_components=2), (x,)),
        "spreading knn": (semi_supervised.LabelSpreading(kernel="knn", n_neighbors=5), (x, np.where(np.arange(60) % 4 == 0, -1, y))),
        "self training trees": (semi_supervised.SelfTrainingClassifier(tree.DecisionTreeClassifier(max_depth=3)), (x, np.where(np.arange(60) % 4 == 0, -1, y))),
        "nearest centroid": (neighbors.NearestCentroid(metric="manhattan", shrink_threshold=0.1), (x, y)),
        "naive bayes categories": (naive_bayes.CategoricalNB(min_categories=5), (x.round(0).astype(int), y)),
        "select model trees": (feature_selection.SelectFromModel(tree.DecisionTreeClassifier(random_state=0), prefit=False, max_features=3), (x, y)),
        "select mutual": (feature_selection.SelectKBest(feature_selection.mutual_info_classif, k=2), (x, y)),
        "output pandas": (preprocessing.StandardScaler().set_output(transform="pandas"), (frame,)),
        "isotonic clip": (isotonic.IsotonicRegression(out_of_bounds="clip"), (x[:, 0], z)),
        "nystroem": (kernel_approximation.Nystroem(kernel="polynomial", degree=2, n_components=5, random_state=0), (x,)),
        "count sketch": (kernel_approximation.PolynomialCountSketch(n_components=8, random_state=0), (x,)),
        "random projection sparse": (random_projection.SparseRandomProjection(3, random_state=0, dense_output=True, compute_inverse_components=True), (sparse,)),
        "kernel ridge": (kernel_ridge.KernelRidge(kernel="laplacian"), (x, z)),
    }
    return made


def variant_names() -> list[str]:
    """Labels of `variant`."""
    return list(_variants())


def variant(label: str) -> tuple[Any, tuple[Any, ...]]:
    """The estimator of that label, fitted, and what it was fitted on."""
    estimator, arguments = _variants()[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*arguments), arguments


def objects() -> Iterator[tuple[str, Any]]:
    """All of them with a label."""
    for name in names():
        try:
            yield name, fitted(name)
        except Exception as error:
            print(f"! {name} does not fit: {type(error).__name__}: {error}")
    for label in more_names():
        try:
            yield label, more(label)
        except Exception as error:
            print(f"! {label} cannot be made: {type(error).__name__}: {error}")
