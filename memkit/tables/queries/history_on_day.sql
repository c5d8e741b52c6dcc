-- What did a memory, or each of them, say at the moment of as_of?
-- $memory_id = null
select memory_id, version, kind, path, title, text, valid_from, valid_to, commit
from versions
where valid_from <= $as_of and coalesce(valid_to > $as_of, true) and change <> 'removed'
    and ($memory_id::varchar is null or $memory_id in (memory_id, memory_id_then))
order by memory_id
