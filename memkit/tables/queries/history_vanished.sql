-- Which memories are gone, by which commit, and did it take more than a fifth of what lived?
select v.valid_from::date as gone, c.removed > 0.2 * (c.alive - c.added + c.removed) as with_many, v.memory_id, v.kind,
    before.title, before.text, c.author, c.subject, v.commit
from versions v join commits c using (commit)
    join versions before on before.memory_id = v.memory_id and before.version = v.version - 1
where v.change = 'removed' and v.valid_to is null
order by v.valid_from desc, v.memory_id
