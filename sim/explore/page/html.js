// @ts-check
// Text with marks, as the server makes it of Markdown: of its elements only those that say something.

const KNOWN = new Set(["P", "EM", "STRONG", "CODE", "PRE", "UL", "OL", "LI", "H1", "H2", "H3", "H4", "BLOCKQUOTE", "HR", "BR", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD"]);

/**
 * @param {string} html
 * @returns {DocumentFragment}
 */
export function fromHtml(html) {
  const fragment = document.createDocumentFragment();
  copy(new DOMParser().parseFromString(html, "text/html").body, fragment);
  return fragment;
}

/** @param {Node} from @param {Node} to */
function copy(from, to) {
  for (const node of from.childNodes) {
    if (node instanceof Text) to.appendChild(document.createTextNode(node.data));
    if (!(node instanceof HTMLElement)) continue;
    const href = node.tagName === "A" ? node.getAttribute("href") ?? "" : "";
    if (href.startsWith("#")) {
      const link = document.createElement("a");
      link.href = href;
      copy(node, to.appendChild(link));
    } else if (KNOWN.has(node.tagName)) copy(node, to.appendChild(document.createElement(node.tagName)));
    else copy(node, to);
  }
}
