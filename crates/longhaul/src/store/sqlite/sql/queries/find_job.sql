-- The tenant is part of the key: another tenant's id answers exactly as an unknown one.
SELECT seq FROM jobs WHERE tenant_id = ?1 AND id = ?2
