-- Which pages or facts supersede, replace or contradict others?
select sources.path, relations.type, relations.written, coalesce(targets.path, relations.to_id) as target, relations.state
from relations
left join memories as sources on sources.memory_id = relations.memory_id
left join memories as targets on targets.memory_id = relations.to_id
where regexp_matches(relations.type, '(?i)supersed|replac|contradict|заменя|противореч')
order by all
