-- Which index entries name a file that is not there, or that they must not name?
select index_path, line, category, title, file, status, reason
from entries
where status <> 'valid'
order by status, index_path, line
