-- Finds a job by id. The tenant is part of the key, so that another tenant's id gives the same result as
-- an unknown one.
SELECT seq FROM jobs WHERE tenant_id = ?1 AND id = ?2
