"use strict";
// Sorting, filtering and folding. Everything is there to be read without it; it adds the controls that need it.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const shown = row.cells[column].textContent.trim();
        return shown === "-" ? shown : row.cells[column].dataset.value || shown;
      };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "-" || y === "-") return (x === "-") - (y === "-"); // what is not there stands last, whichever way
        const found = x - y || x.localeCompare(y, undefined, { numeric: true }); // texts have no difference: NaN
        return down ? -found : found;
      };
      [...body.rows].sort(order).forEach((row) => body.append(row));
    });
  });
});
const filter = document.querySelector(".filter");
if (filter) {
  filter.hidden = false;
  const [text, verdict] = [filter.querySelector("input"), filter.querySelector("select")];
  const told = filter.querySelector("output");
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    document.querySelectorAll("[data-verdict]").forEach((each) => {
      const fits = (!verdict.value || each.dataset.verdict === verdict.value) && words.every((word) => each.dataset.words.includes(word));
      each.hidden = !fits;
      if (fits && each.matches("article")) shown += 1;
    });
    told.textContent = `${shown} shown`;
  };
  text.addEventListener("input", apply);
  verdict.addEventListener("change", apply);
}
const folds = [...document.querySelectorAll("button.fold")];
const fold = (button, open) => {
  button.setAttribute("aria-expanded", String(open));
  button.textContent = open ? "Fold" : "Unfold";
  document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
};
folds.forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", () => fold(button, button.getAttribute("aria-expanded") !== "true"));
});
document.querySelectorAll("button.all").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", () => folds.forEach((each) => fold(each, button.dataset.open === "true")));
});
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const button = target && target.querySelector("button.fold");
  if (button) fold(button, true);
};
addEventListener("hashchange", unfold);
if (folds.length > 12) folds.forEach((button) => fold(button, false));
unfold();
