"use strict";
// The page of all runs.
byId("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  document.querySelectorAll("#runs tbody tr").forEach((row) => {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  });
});
sortable();
root.dataset.ready = "yes";
