-- Which files hold the most text?
select path, count(*) as memories, sum(length(text))::bigint as chars
from memories
group by path
order by chars desc, path
