-- How many memories were added each day, and how many are there since?
select created_at::date as day, count(*) as added, sum(count(*)) over (order by created_at::date)::bigint as in_all
from memories
where created_at is not null
group by day
order by day
