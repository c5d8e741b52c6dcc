// A heading becomes a button, which every keyboard reaches; numbers sort as numbers, and what is empty stays last.
for (const table of document.querySelectorAll('.mk table')) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const body = table.tBodies[0];
      const rows = [...body.rows].map(row => [row.cells[at].textContent.trim(), row]);
      const number = text => Number(text.replaceAll(',', '').replace('%', ''));
      const numbers = rows.every(([text]) => !Number.isNaN(number(text)));
      rows.sort(([a], [b]) => !a || !b ? !a - !b
        : (up ? 1 : -1) * (numbers ? number(a) - number(b) : a.localeCompare(b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
