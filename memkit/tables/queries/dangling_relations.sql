-- Which relations point to a fact that nobody wrote?
select r.from_id, r.type, r.to_id, r.weight, r.memory_id
from relations r
anti join wisdom_facts f on f.fact_id = r.to_id
where r.state is null
order by r.from_id, r.to_id
