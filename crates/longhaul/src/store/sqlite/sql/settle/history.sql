-- Only for whoever asks for a record: no other read touches a history, which may be long.
SELECT history FROM jobs WHERE seq = ?1
