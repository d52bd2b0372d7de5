-- A noisy count, by hand: Laplace noise of scale 1 from SQLite's random(), whose 64 bits make a number u in (-1/2, 1/2).
WITH noise AS (SELECT (random() + 0.5) / 18446744073709551616.0 AS u)
SELECT round(1024 * ((SELECT count(*) FROM data WHERE age > 30) - sign(u) * ln(1 - 2 * abs(u)))) / 1024 FROM noise
