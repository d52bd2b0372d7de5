-- Wrong: each row is clipped to [0, 1], which bounds what a row adds, not what a user with many rows does.
WITH noise AS (SELECT (random() + 0.5) / 18446744073709551616.0 AS u)
SELECT round(1024 * ((SELECT coalesce(sum(min(max(spent, 0), 1)), 0) FROM data) - sign(u) * ln(1 - 2 * abs(u)))) / 1024 FROM noise
