-- Which pathways work, and on how many uses does that rest?
select id, tier, hits, success_rate, last_used_at::date as last_used, triggers
from pathways
order by success_rate desc nulls last, hits desc nulls last, id
