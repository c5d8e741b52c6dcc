-- Which commits took more than a fifth of what lived?
select committed_at::date as day, removed, alive - added + removed as lived, added, author, subject, commit
from commits
where removed > 0.2 * (alive - added + removed)
order by committed_at desc, commit
