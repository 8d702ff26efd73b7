"""SciPy. What compiled code reads without looking (sparse containers, trees, triangulations, splines, grids, densities) and distributions, whose state is
text that is run, are rebuilt by `transload.adapters.scipy*`, which look at them first.

Here are classes whose methods are Python and NumPy, and functions by name. Not here: integrators and solvers in the middle of their work, samplers
(`qmc`, `sampling`), models of `odr`, the infinite distributions of `stats.Normal` and its kind.
"""

from __future__ import annotations

MAKE, CALL, HAND_ON = 1, 2, 4

# ufuncs say nothing about their home: it is the first loaded module that has them.
_UFUNCS = (
    "agm airy bdtr bei ber beta betainc betaincinv betaln binom boxcox boxcox1p btdtr cbrt chdtr chdtrc cosdg cosm1 cotdg digamma ellipe ellipk entr erf erfc erfcinv erfcx erfi erfinv "
    "eval_chebyt eval_hermite eval_jacobi eval_laguerre eval_legendre exp1 exp10 exp2 expi expit expm1 expn exprel fdtr gamma gammainc gammaincc gammaincinv gammaln gammasgn gdtr huber hyp0f1 "
    "hyp1f1 hyp2f1 i0 i0e i1 i1e inv_boxcox inv_boxcox1p iv ive j0 j1 jn jv jve k0 k1 kl_div kn kv kve lambertw log1p log_expit log_ndtr loggamma logit nbdtr ndtr ndtri ndtri_exp nrdtrimn owens_t "
    "pdtr poch pseudo_huber psi rel_entr rgamma round shichi sici sindg sinpi spence stdtr stdtrit struve tandg wofz wright_bessel xlog1py xlogy y0 y1 yn yv zeta"
)
_HANDED_ON = {
    **dict.fromkeys(("scipy.special", "scipy.special._special_ufuncs", "scipy.special._ufuncs"), _UFUNCS),
    "scipy.special._basic": "comb digamma factorial factorial2 factorialk perm polygamma sinc zeta",
    "scipy.special._logsumexp": "log_softmax logsumexp softmax",
    "scipy.linalg._basic": "det inv lstsq pinv solve",
    "scipy.stats._stats_py": "describe gmean hmean iqr kurtosis median_abs_deviation mode moment percentileofscore rankdata sem skew trim_mean tmean tmax tmin tstd tvar variation zscore",
    "scipy.stats._entropy": "entropy",
    # As attributes of splines and of what interpolates.
    "scipy._lib.array_api_compat.numpy._aliases": "asarray",
    "scipy.interpolate._interpolate:interp1d": "_call_linear _call_linear_np _call_nan_spline _call_nearest _call_previousnext _call_spline",
    "scipy.interpolate._rbf:Rbf": "_h_cubic _h_gaussian _h_inverse_multiquadric _h_linear _h_multiquadric _h_quintic _h_thin_plate",
}
_MADE = {
    "scipy._lib._util": "_RichResult",
    "scipy.integrate._bvp": "BVPResult",
    "scipy.integrate._cubature": "CubatureRegion CubatureResult",
    "scipy.integrate._ivp.bdf": "BdfDenseOutput",
    "scipy.integrate._ivp.common": "ConstantDenseOutput OdeSolution",
    "scipy.integrate._ivp.ivp": "OdeResult",
    "scipy.integrate._ivp.lsoda": "LsodaDenseOutput",
    "scipy.integrate._ivp.radau": "RadauDenseOutput",
    "scipy.integrate._ivp.rk": "Dop853DenseOutput RkDenseOutput",
    "scipy.integrate._quadrature": "QMCQuadResult",
    "scipy.interpolate._bary_rational": "AAA FloaterHormannInterpolator",
    "scipy.interpolate._interpolate": "interp1d",
    "scipy.interpolate._polyint": "BarycentricInterpolator KroghInterpolator",
    "scipy.interpolate._rbf": "Rbf",
    "scipy.io.matlab._mio5_params": "mat_struct",
    "scipy.odr._odrpack": "Data Output RealData",
    "scipy.optimize._constraints": "Bounds LinearConstraint NonlinearConstraint",
    "scipy.optimize._hessian_update_strategy": "BFGS SR1",
    "scipy.optimize._lbfgsb_py": "LbfgsInvHessProduct",
    "scipy.optimize._optimize": "OptimizeResult",
    "scipy.optimize._zeros_py": "RootResults",
    "scipy.signal._czt": "CZT ZoomFFT",
    "scipy.signal._ltisys": "StateSpaceContinuous StateSpaceDiscrete TransferFunctionContinuous TransferFunctionDiscrete ZerosPolesGainContinuous ZerosPolesGainDiscrete",
    "scipy.signal._short_time_fft": "ShortTimeFFT",
    "scipy.sparse.linalg._interface": "IdentityOperator MatrixLinearOperator _AdjointLinearOperator _AdjointMatrixOperator _CustomLinearOperator _PowerLinearOperator _ProductLinearOperator "
                                      "_ScaledLinearOperator _SumLinearOperator _TransposedLinearOperator",
    "scipy.sparse.linalg._special_sparse_arrays": "LaplacianNd MikotaK MikotaM MikotaPair Sakurai",
    "scipy.spatial._kdtree": "Rectangle",
    "scipy.spatial.transform._rotation": "Slerp",
    "scipy.spatial.transform._rotation_spline": "RotationSpline",
    # Results: named tuples, with more attributes beside, and data classes.
    "scipy.stats._binned_statistic": "BinnedStatistic2dResult BinnedStatisticResult BinnedStatisticddResult",
    "scipy.stats._binomtest": "BinomTestResult",
    "scipy.stats._censored_data": "CensoredData",
    "scipy.stats._common": "ConfidenceInterval",
    "scipy.stats._covariance": "CovViaCholesky CovViaDiagonal CovViaEigendecomposition CovViaPSD CovViaPrecision",
    "scipy.stats._crosstab": "CrosstabResult",
    "scipy.stats._fit": "GoodnessOfFitResult",
    "scipy.stats._hypotests": "BarnardExactResult BoschlooExactResult CramerVonMisesResult Epps_Singleton_2sampResult SomersDResult TukeyHSDResult",
    "scipy.stats._mannwhitneyu": "MannwhitneyuResult",
    "scipy.stats._mgc": "MGCResult",
    "scipy.stats._morestats": "AndersonResult Anderson_ksampResult AnsariResult BartlettResult FlignerResult LeveneResult Mean MedianTestResult ShapiroResult Std_dev Variance WilcoxonResult",
    "scipy.stats._mstats_basic": "BrunnerMunzelResult DescribeResult F_onewayResult FriedmanchisquareResult KruskalResult KurtosistestResult MannwhitneyuResult ModeResult NormaltestResult "
                                 "PointbiserialrResult SenSeasonalSlopesResult SkewtestResult Ttest_1sampResult Ttest_indResult Ttest_relResult",
    "scipy.stats._multicomp": "DunnettResult",
    "scipy.stats._multivariate": "_PSD dirichlet_frozen dirichlet_multinomial_frozen invwishart_frozen matrix_normal_frozen multivariate_normal_frozen multivariate_t_frozen "
                                 "normal_inverse_gamma_frozen ortho_group_frozen random_correlation_frozen special_ortho_group_frozen uniform_direction_frozen unitary_group_frozen "
                                 "vonmises_fisher_frozen wishart_frozen",
    "scipy.stats._odds_ratio": "OddsRatioResult",
    "scipy.stats._page_trend_test": "PageTrendTestResult",
    "scipy.stats._relative_risk": "RelativeRiskResult",
    "scipy.stats._resampling": "BootstrapMethod BootstrapResult MonteCarloMethod MonteCarloTestResult PermutationMethod PermutationTestResult PowerResult",
    "scipy.stats._sensitivity_analysis": "BootstrapSobolResult SobolResult",
    "scipy.stats._stats_mstats_common": "SiegelslopesResult TheilslopesResult",
    "scipy.stats._stats_py": "AlexanderGovernResult BrunnerMunzelResult ConfidenceInterval CumfreqResult DescribeResult F_onewayResult FriedmanchisquareResult HistogramResult KruskalResult KstestResult "
                             "KurtosistestResult LinregressResult ModeResult NormaltestResult PearsonRResult Power_divergenceResult QuantileTestResult RanksumsResult RelfreqResult SigmaclipResult "
                             "SignificanceResult SkewtestResult Ttest_indResult",
    "scipy.stats._survival": "ECDFResult EmpiricalDistributionFunction LogRankResult",
    "scipy.stats.contingency": "Chi2ContingencyResult",
}
EXCEPTIONS = {
    "scipy.cluster.hierarchy": "ClusterWarning",
    "scipy.cluster.vq": "ClusterError",
    "scipy.constants._codata": "ConstantWarning",
    "scipy.integrate._odepack_py": "ODEintWarning",
    "scipy.integrate._quadpack_py": "IntegrationWarning",
    "scipy.interpolate._interpnd": "GradientEstimationWarning",
    "scipy.io.matlab._miobase": "MatReadError MatReadWarning MatWriteError MatWriteWarning",
    "scipy.io.wavfile": "WavFileWarning",
    "scipy.linalg._misc": "LinAlgWarning",
    "scipy.odr._odrpack": "OdrError OdrStop OdrWarning",
    "scipy.optimize._linesearch": "LineSearchWarning",
    "scipy.optimize._nonlin": "NoConvergence",
    "scipy.optimize._optimize": "OptimizeWarning",
    "scipy.signal._filter_design": "BadCoefficients",
    "scipy.signal._peak_finding_utils": "PeakPropertyWarning",
    "scipy.sparse._base": "SparseEfficiencyWarning SparseFormatWarning SparseWarning",
    "scipy.sparse.linalg._dsolve.linsolve": "MatrixRankWarning",
    "scipy.spatial._qhull": "QhullError",
    "scipy.special._sf_error": "SpecialFunctionError SpecialFunctionWarning",
    "scipy.stats._axis_nan_policy": "SmallSampleWarning",
    "scipy.stats._continuous_distns": "FitDataError FitSolverError",
    "scipy.stats._unuran.unuran_wrapper": "UNURANError",
    "scipy.stats._warnings_errors": "ConstantInputWarning DegenerateDataWarning FitError NearConstantInputWarning",
}

NAMES: dict[str, int] = {}
for _homes, _role in ((_HANDED_ON, HAND_ON), (_MADE, MAKE), (EXCEPTIONS, CALL | HAND_ON)):
    for _home, _names in _homes.items():
        for _name in _names.split():
            NAMES[f"{_home}{'.' if ':' in _home else ':'}{_name}"] = _role
