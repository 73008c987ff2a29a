// Elements without markup in strings: what comes from a run is always text.

type Attributes = Record<string, string | boolean | ((event: Event) => void)>;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Says something to a screen reader and, for a while, on the screen. */
export function announce(text: string): void {
  let place = document.getElementById("said");
  if (!place) {
    place = element("div", { id: "said", role: "status", class: "said tools" });
    document.body.append(place);
  }
  place.textContent = text;
  setTimeout(() => place.textContent === text && (place.textContent = ""), 4000);
}

export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce("copied");
  } catch {
    announce("the browser does not let this page copy");
  }
}
