-- Finds a job by its current lease: a superseded epoch finds nothing and so writes nothing.
SELECT seq FROM jobs WHERE tenant_id = ?1 AND id = ?2 AND epoch = ?3 AND status = 'running'
