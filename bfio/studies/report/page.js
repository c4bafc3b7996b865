// Shows which rows a number was made of when it is clicked; the page is whole without it.
(function () {
  "use strict";
  var panel = document.getElementById("origin");
  var open = null;
  function inherited(element, name) {
    var holder = element.closest("[" + name + "]");
    return holder ? holder.getAttribute(name) : "";
  }
  function words(text) { return text ? text.split(" ") : []; }
  function fill(name, keys) {
    panel.querySelector("." + name + "-count").textContent = keys.length;
    panel.querySelector("." + name).textContent = keys.join("\n");
  }
  function show(element) {
    var partners = words(inherited(element, "data-baseline-keys"));
    panel.querySelector(".what").textContent =
      element.textContent + ": " + inherited(element, "data-statistic").replace(/-/g, " ") +
      " of " + inherited(element, "data-value") + ", exactly " + element.value;
    fill("keys", words(inherited(element, "data-keys")));
    fill("partners", partners);
    panel.querySelector(".divided").hidden = partners.length === 0;
    if (open) { open.classList.remove("open"); }
    open = element;
    open.classList.add("open");
    panel.hidden = false;
  }
  function hide() {
    panel.hidden = true;
    if (open) { open.classList.remove("open"); open = null; }
  }
  document.addEventListener("click", function (event) {
    var element = event.target.closest("data[data-statistic]");
    if (element) { show(element); }
    else if (!event.target.closest("#origin") || event.target.closest(".close")) { hide(); }
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { hide(); }
  });
})();
