"""Translations of words and symbols in the claims' printed texts into expressions, which tests
evaluate and compare.
"""

from __future__ import annotations

from collections.abc import Mapping

Readings = Mapping[str, Mapping[str, str]]

GIVEN: Readings = {
    "CM-01": {"P[M(D) in S]": "exp(epsilon)", "P[M(D') in S]": "1"},
    "CM-04": {"sup |w*(D) - w*(D')|": "2 / n_lambda"},
    "CM-04-line": {"max_w ": "", "2 x 0.526": "2 * 0.526"},
    "CM-05-line": {"max_w ": ""},
    "CM-05-repair": {"sup |w*(D) - w*(D')|": "2 / n / lambda"},
    "CM-07": {"l''(0) / G''": "curvature"},
    "CM-08": {"P(epsilon |b| > 4 log(1/delta))": "exp(-4 log(1/delta) / sqrt(2))"},
    "CM-08-repair": {
        "P(Gamma(d) > d + sqrt(2 d t) + t)": "exp(d log(1 + (sqrt(2 d t) + t) / d) - (sqrt(2 d t) + t))",
        "d": "dimension",
    },
    "JK-17-approximate": {"delta'": "slack", "delta": "leak", "k": "rounds"},
    "JT-02": {"rate |theta_hat(D) - theta_hat(D')|": "share epsilon / 2"},
    "JT-05-moderate": {" for s >= 1": ""},
    "JT-10": {"sup log(theta_j / theta'_j)": "4 L R / lambda"},
    "JT-15": {"sup log(theta_j / theta'_j)": "4 R / lambda"},
    "JT-16-moderate": {"rho": "epsilon^2 / (4 log(1/delta))"},
    "JT-16-repair": {"rho": "epsilon^2 / (4 log(1/delta) (1 + epsilon / (4 log(1/delta)))^2)"},
    "JT-19-repair": {"lambda": "R sqrt(8 T log(1/delta)) / epsilon"},
    "MN-02": {"det Q / det Q'": "1 + epsilon / 2"},
    "MN-06-price": {
        ", k = Lambda / (epsilon n), for each eigenvalue a of Sigma + lambda I": "",
        "a": "share / (1 - share)",
        "k": "1",
    },
    "ZOO-SVT-no-threshold-noise-cost": {
        "log(F(t + 1) / F(t))": "epsilon / 4",
        " for every t, F the distribution function of Laplace noise of scale 4 / epsilon": "",
    },
}
"""Claim id -> words or symbols of the formula -> expression. For a formula's left side, the check's docstring derives the expression."""

LINKS: Readings = {
    "CM-02": {"S / epsilon": "X / (S / (sqrt(2) epsilon)) == sqrt(2)"},
    "CM-03": {"at most max |grad g| / G2": "<= g1 / G2", "strong convexity G2": "G2 r^2"},
    "CM-04": {"2 / (n lambda)": "X n lambda == 2"},
    "CM-05-repair": {"exp(-n epsilon lambda |b| / 2)": "-log(X) / |b| == n epsilon lambda / 2"},
    "CM-06": {"epsilon / 2": "X (1 + s) == epsilon (1 + s) / 2", "in d >= 2": "d >= 2"},
    "CM-06-experiments": {"keep epsilon = 0.2": "<= epsilon"},
    "CM-06-line-repair": {"2 / epsilon": "|v s - u t| / (X epsilon) == |v s - u t| / 2"},
    "CM-06-repair": {
        "epsilon n lambda / 2 = 1 + surplus, surplus >= 0": "n lambda >= 2 / epsilon",
        "rate epsilon / 2": "epsilon (1 + s) / 2",
    },
    "CM-07-repair": {
        "exp(-epsilon |b| / (4 kappa))": "-log(X) 2 kappa / |b| == epsilon / 2",
        "2 rho / epsilon": "rho / X == epsilon / 2",
        "G of strong convexity >=": "with a bound rho on the curvature",
    },
    "CM-08": {
        "8 log(1/delta)^2 / (lambda n^2 epsilon^2)": "epsilon sqrt(2 X lambda n^2) == 4 log(1/delta)",
        "fhat(w2) <= fhat(w1) + ": "fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2)",
        "1 - delta": "1 - X == delta",
    },
    "CM-08-gamma": {
        "8 log(1/delta)^2 / (lambda n^2 epsilon^2)": "epsilon sqrt(2 X lambda n^2) == 4 log(1/delta)",
        "fhat(w2) <= fhat(w1) + ": "fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2)",
        "1 - delta": "1 - X == delta",
    },
    "CM-08-repair": {
        "2 (d + sqrt(2 d t) + t)^2 / (lambda n^2 epsilon^2)": "epsilon sqrt(2 X lambda n^2) / 2 == d + sqrt(2 d t) + t",
        "log(1/delta)": "exp(-X) == delta",
        "fhat(w2) <= fhat(w1) + ": "fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2)",
        "1 - delta": "1 - X == delta",
    },
    "CM-08-repair-2011": {
        "8 d^2 log(d/delta)^2 / (lambda n^2 epsilon^2)": "epsilon sqrt(2 X lambda n^2) / 2 == 2 d log(d/delta)",
        "fhat(w2) <= fhat(w1) + ": "fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2)",
        "1 - delta": "1 - X == delta",
    },
    "CM-08-runs": {
        "8 log(1/delta)^2 / (lambda n^2 epsilon^2)": "epsilon sqrt(2 X lambda n^2) == 4 log(1/delta)",
        "fhat(w2) <= fhat(w1) + ": "fhat(w2) - fhat(w1) <= |b|^2 / (2 lambda n^2)",
        "1 - delta": "1 - X == delta",
    },
    "CM-10": {"norm 1": "= 1", "D_d(gamma)": "gamma^2 + (d - 1) (1 - gamma^2) / (d - 1)"},
    "CM-10-errors": {"D_10(0.001)": "d = 10, gamma = 0.001"},
    "CM-10-order": {"D_10(0.001)": "d = 10, gamma = 0.001"},
    "CM-11": {
        "epsilon'/2": "X (1 + s) == epsilon' (1 + s) / 2",
        "2 log(1 + 1/(4 n lambda))": "(exp(X / 2) - 1) 4 s (1 - s) == s (1 - s) / (n lambda)",
        "epsilon' = epsilon - ": "epsilon' (1 + s) / 2",
    },
    "JK-04": {"bounds the minimiser by C =": "|w| <="},
    "JK-05": {
        "A minimiser of (2) beats any other w by (lambda/2) times their squared distance": "F(w') - F(w) >= (lambda/2) |w - w'|^2",
        "the two displays add up to (3)": "the two displays of the proof of Theorem 2",
    },
    "JK-06": {
        "no larger than the one for which its privacy theorem is quoted": "<= epsilon / (200 sqrt(B) S log(4/delta))",
        "The algorithm's epsilon_0": "n lambda epsilon / (200 L R^2 sqrt(B) log(4/delta)) <=",
    },
    "JK-06-repair": {
        "n lambda epsilon / (400 L R^2 sqrt(B) log(4/delta))": "X 2 L R^2 / (n lambda) / S == epsilon / (200 sqrt(B) S log(4/delta))"
    },
    "JK-07-composition": {
        "cost the privacy of B Laplace answers": "<= that of the B-fold Laplace mechanism"
    },
    "JK-07-constant": {
        "n epsilon lambda / (c L R^2 sqrt(B) log(4/delta))": (
            "X c / 200 2 L R^2 / (n lambda) log(4/delta) / m == epsilon / (100 sqrt(B) m)"
        ),
        "c = 200": "the constant 200",
    },
    "JK-07-rounds": {"e-DP": "pays with e"},
    "JK-08": {
        "With probability 1 - beta no test point is left without an answer": "P(counter reaches B before round T) <= beta"
    },
    "JK-08-potential": {
        "The printed B is no smaller than the number of updates": "3.2 R^2 C^2 / sigma(B)^2 <= B"
    },
    "JK-08-repair": {
        "sqrt(3.2) C n epsilon lambda / (800 L R log(2T/beta) log(4/delta))": (
            "(X 800 L R^2 log(2T/beta) log(4/delta) / (n lambda epsilon))^2 == 3.2 R^2 C^2"
        ),
        "B >=": "at the smallest such B",
    },
    "JK-08-updates": {
        "3.2 R^2 C^2 / sigma^2": "C^2 / X == 5 sigma^2 / (16 R^2)",
        "there are at most": "from at most C^2",
        "all noise is at most sigma/4": "falls by at least 5 sigma^2 / (16 R^2)",
    },
    "JK-09": {
        "1 - beta/2": "1 - X == beta/2",
        "every top within sigma/4": "|noise| > sigma/4",
        "1.25 sigma": "X == 5 sigma/4",
    },
    "JK-09-theorem-3": {"sqrt(log(T/beta))": "sqrt(L) X == sqrt(L log(T/beta))"},
    "JK-11-tail": {
        "sqrt(2) sqrt(T) nu log(T/beta)": "X / sqrt(T) == sqrt(2) nu log(T/beta)",
        "|b|_2 <=": "|b_t|",
        "1 - beta": "1 - X == beta",
    },
    "JK-12": {"1/sqrt(n)": "sqrt(epsilon lambda) / X == sqrt(n epsilon lambda)"},
    "JK-13-repair": {
        "2 (L R)^4 log(T/beta)^2 sqrt(log(1/delta)) / (lambda^2 epsilon_g^2 epsilon)": (
            "(epsilon_g / log(T/beta))^2 X epsilon lambda / (L R)^3 / sqrt(log(1/delta)) == "
            "2 L R / lambda"
        )
    },
    "JK-14": {"at most epsilon_0 / 4": "<= epsilon_0 / 2", "epsilon_0/2-DP": "<= epsilon_0 / 2"},
    "JK-16": {"n^(-2/3)": "X / lambda^(4/3) == 1 / (lambda^2 n)^(2/3)"},
    "JK-16-substitution": {"|w*| <= 2 L R / lambda": "<= 2 L R / lambda"},
    "JK-17": {
        "(epsilon', delta')-DP": "epsilon' = sqrt(2 k log(1/delta')) epsilon",
        "k adaptive epsilon-DP": "k epsilon (exp(epsilon) - 1)",
    },
    "JK-17-approximate": {
        "(epsilon, delta)-DP mechanisms are (epsilon', delta')-DP": "1 - (1 - delta)^k <= delta'",
        "with the same epsilon' and delta'": "applied to (epsilon, delta)-DP components",
    },
    "JK-17-sharp": {
        "The mean loss of an epsilon-DP mechanism is at most epsilon tanh(epsilon/2)": "k epsilon tanh(epsilon/2)"
    },
    "JK-17-slack": {"keeps (epsilon', delta')": "delta(epsilon') <= delta'"},
    "JK-18": {
        "epsilon / (200 sqrt(B) S log(4/delta))": "X S log(4/delta) / m == epsilon / (200 sqrt(B) m)",
        "if B >= 1": "As JK-07-repair",
    },
    "JK-18-theorem-12": {
        "K sqrt(B^2 R^2 L^2 log(1/beta) / T)": "X sqrt(T) / (B R L) == K sqrt(log(1/beta))",
        "|w| <= B": "bounded by B R L",
    },
    "JT-02": {"exp(-epsilon lambda |b| / (4 L R))": "-log(X) / |b| == epsilon lambda / (4 L R)"},
    "JT-02-shape": {
        "exp(-epsilon lambda v / (4 L R))": "-log(X) / v == epsilon lambda / (4 L R)",
        "in p = 2": "In p >= 2",
    },
    "JT-03": {
        "16 (L R)^2 (log(1/delta) + epsilon) / (lambda epsilon)^2": (
            "2 L R / (lambda sqrt(X)) == epsilon / sqrt(4 (log(1/delta) + epsilon))"
        )
    },
    "JT-03-sharper": {
        "6.13 (L R)^2 (log(1/delta) + epsilon) / (lambda epsilon)^2": (
            "2 L R / (lambda sqrt(X)) == epsilon / sqrt(1.5325 (log(1/delta) + epsilon))"
        )
    },
    "JT-04-dimension": {"does not grow with p": "O(p^0)"},
    "JT-05": {"2/3": "1 - X == 1/3"},
    "JT-05-moderate": {
        "17.1 L R |theta*| s / sqrt(n)": "X sqrt(n) / (L R |theta*|) == 17.1 s",
        "2/3": "1 / (1 - X) == 3",
    },
    "JT-05-rate": {"1/sqrt(n)": "O(n^-1/2)"},
    "JT-05-repair": {
        "9.6 L R |theta*| (1 + s) / sqrt(n)": "X sqrt(n) / (L R |theta*|) == 9.6 (1 + s)",
        "2/3": "1 / (1 - X) == 3",
    },
    "JT-06": {
        "epsilon / (2 L R)": "X 2 L R == epsilon",
        "2 c2 R^2 / epsilon": "c2 R^2 / X == epsilon / 2",
    },
    "JT-06-huber": {
        "epsilon / (2 L R)": "X 2 L R == epsilon",
        "2 c2 R^2 / epsilon": "c2 R^2 / X == epsilon / 2",
    },
    "JT-06-logistic": {
        "epsilon / (2 L R)": "X 2 L R == epsilon",
        "2 c2 R^2 / epsilon": "4 c2 R^2 / X s (1 - s) == 2 epsilon s (1 - s)",
    },
    "JT-06-logistic-repair": {
        "epsilon / (2 L R)": "X 2 L R == epsilon",
        "8 c2 R^2 / epsilon": "4 c2 R^2 / X s (1 - s) == epsilon s (1 - s) / 2",
    },
    "JT-06-repair": {
        "epsilon / (4 L R)": "X 2 L R == epsilon / 2",
        "2 c2 R^2 / epsilon": "c2 R^2 / X == epsilon / 2",
    },
    "JT-07": {
        "4 (L R)^2 (log(1/delta) + epsilon) / epsilon^2": "2 L R / sqrt(X) == epsilon / sqrt(log(1/delta) + epsilon)"
    },
    "JT-07-attributed": {
        "(L R)^2 (8 log(2/delta) + 4 epsilon) / epsilon^2": "2 L R / sqrt(X) == epsilon / sqrt(2 log(2/delta) + epsilon)"
    },
    "JT-07-attributed-linear": {
        "(L R)^2 (8 log(2/delta) + 4 epsilon) / epsilon^2": "2 L R / sqrt(X) == epsilon / sqrt(2 log(2/delta) + epsilon)"
    },
    "JT-07-huber": {
        "4 (L R)^2 (log(1/delta) + epsilon) / epsilon^2": "2 L R / sqrt(X) == epsilon / sqrt(log(1/delta) + epsilon)"
    },
    "JT-07-repair": {
        "(2 L R)^2 (8 log(2/delta) + 4 epsilon) / epsilon^2": "2 L R / sqrt(X) == epsilon / sqrt(8 log(2/delta) + 4 epsilon)",
        "2 c2 R^2 / epsilon": "c2 R^2 / X == epsilon/2",
        "lambda >=": "<= 1 + epsilon / 2",
    },
    "JT-08": {"satisfies the condition lambda >= 2 c2 R^2 / epsilon": ">= 2 c2 R^2 / epsilon"},
    "JT-09": {"7/10": "1 - X == 3/10"},
    "JT-09-identity": {"theta_priv = theta~ - b / lambda": "= lambda |theta + b / lambda|^2 / 2"},
    "JT-09-rate": {"1/sqrt(n)": "O(n^-1/2)"},
    "JT-09-repair": {
        "8.4 L R h (1 + s) / sqrt(n)": "X sqrt(n) / (L R h) == 8.4 (1 + s)",
        "7/10": "1 / (1 - X) == 10/3",
        "sqrt(|theta*|^2 + 1)": "L R sqrt(n) / h",
    },
    "JT-10": {"epsilon lambda / (4 L R)": "epsilon / X == 4 L R / lambda"},
    "JT-11": {"x = n R^2 L_g / lambda": "(2 + 2 sqrt(1 + x))"},
    "JT-12": {
        "(epsilon lambda / log(1/delta))^2 (32 + 16 x)^-2": "X ((4 + 2 x) / lambda)^2 / 2 == epsilon^2 / (128 log(1/delta)^2)"
    },
    "JT-12-repair": {
        "(epsilon lambda / (L R log(1/delta)))^2 (32 + 16 x)^-2": (
            "X ((L R / lambda) (4 + 2 x))^2 / 2 == epsilon^2 / (128 log(1/delta)^2)"
        )
    },
    "JT-13-dominated": {
        "The (epsilon, delta)-DP form never draws more than the epsilon-DP form": "m_approximate <= m_pure"
    },
    "JT-14": {"With the lambda of Theorem 4": "Theorem 4"},
    "JT-14-draws": {"L_g R^2 / (2m)": "<= L_g R^2 / (2m)"},
    "JT-15": {
        "sqrt(2 T log(1/delta)) (2 R / lambda) = epsilon": "lambda >= R sqrt(8 T log(1/delta)) / epsilon"
    },
    "JT-15-repair": {
        "lambda = R sqrt(8 T log(1/delta)) / epsilon": "the same lambda with the range 4 R / lambda"
    },
    "MN-02": {"for every n lambda": "at N = 0 and falling from there"},
    "MN-03-add-remove": {"exp(-epsilon |b| / (2 zeta))": "-log(X) / |b| == epsilon / (2 zeta)"},
    "MN-03-bulk": {"exp(-epsilon |b| / (2 zeta))": "-log(X) / |b| == epsilon / (2 zeta)"},
    "MN-03-labels": {"2 (beta.x - y) x": "zeta = 2 (B + Y)"},
    "MN-03-repair": {"exp(-epsilon |b| / (4 zeta))": "-log(X) 2 zeta / |b| == epsilon / 2"},
    "MN-05": {"<= min_m R(beta_m) + tau log M / n0": "<= tau log M / n0"},
    "MN-05-cited": {"<= min_m R(beta_m) + tau log M / n0": "<= tau log M / n0"},
    "MN-05-clipped": {"<= min_m R(beta_m) + tau log 2 / n0": "<= 8 log 2"},
    "MN-05-outside": {"<= min_m R(beta_m) + tau log M / n0": "<= tau log M / n0"},
    "MN-05-repair": {"<= min_m R(beta_m) + (tau log M + B^2) / n0": "<= tau log M + B^2"},
    "MN-06": {
        "constants C1, C2, free of n, n0, epsilon and M, with which (13) holds": "inequality (13)"
    },
    "MN-06-price": {
        "(p (p + 1) zeta^2 / (4 Lambda) + Lambda B^2 / 4) / (epsilon n)": (
            "(X - Lambda B^2 / (4 epsilon n)) 4 Lambda / (epsilon n p) == (p + 1) (2 zeta / "
            "epsilon)^2 / (4 n^2)"
        ),
        "E[J(beta_priv) - J(beta_lambda)] <=": "4 a k / (a + k)^2 <= 1",
    },
    "ZOO-NOISY-MAX-value": {"Laplace noise 2 / epsilon": "2 / epsilon"},
    "ZOO-SVT-no-threshold-noise": {"Calls below cost nothing": "q + noise < T => q' + noise < T"},
    "ZOO-SVT-uncut": {
        "Threshold noise 2 / epsilon": "2 / epsilon",
        "query noise 2 / epsilon": "2 / epsilon",
    },
}
"""Claim id -> words or expression of the statement -> the same content in a text that the entry prints next to the statement.

``left == right`` is an equation that the value X of the expression solves; the entry prints the right side next to the statement.
Any other value is a text that the entry prints next to the statement, with the meaning of the words.
"""
