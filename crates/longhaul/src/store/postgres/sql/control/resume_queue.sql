-- Nothing of a queue stays behind once it is resumed: names would pile up.
DELETE FROM longhaul.paused_queues WHERE tenant_id = $1::text AND name = $2::text
