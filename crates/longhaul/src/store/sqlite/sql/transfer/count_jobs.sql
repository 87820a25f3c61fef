-- How much there is to copy.
SELECT count(*) FROM jobs
