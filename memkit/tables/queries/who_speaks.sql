-- Who says how much in the sessions?
select role, count(*) as turns, count(distinct path) as sessions, sum(length(text))::bigint as chars
from turns
group by role
order by turns desc, role
