-- Finds a job only for the lease that holds it: a superseded epoch finds nothing and so writes nothing.
SELECT seq FROM jobs WHERE tenant_id = ?1 AND id = ?2 AND epoch = ?3 AND status = 'running'
