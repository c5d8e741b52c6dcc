-- Which links lead nowhere, or to several pages alike?
select memories.path, relations.line, relations.type, relations.written, relations.state
from relations join memories using (memory_id)
where relations.state in ('dead', 'ambiguous')
order by relations.state desc, memories.path, relations.line, relations.written
