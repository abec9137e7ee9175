// Filter of the list of runs: only rows that contain all words are shown. "/" focuses the field, Escape empties it.
const field = document.getElementById("filter");
const count = document.getElementById("count");
const rows = [...document.querySelectorAll("#runs tbody tr")];
function show() {
  const words = field.value.toLowerCase().split(/\s+/);
  for (const row of rows) {
    row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  }
  count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
}
field.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && event.target === field) {
    field.value = "";
    show();
  }
});
field.closest(".filter").hidden = false;
show();
