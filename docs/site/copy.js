// A button on every block of code that copies its text.
for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.className = "copy btn btn-sm btn-secondary";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").innerText);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1000);
  });
  block.append(button);
}
