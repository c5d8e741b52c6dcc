-- Which check boxes are not ticked, in the memories of any format?
select path, line, text from checklist where not done order by path, line
