// A select of the models that can do the task of a tab; hidden where there is only one.

import { element } from "./dom.js";

export function modelChoice(container, models, onChange = () => {}) {
  const id = `${container.id}-select`;
  const select = element(
    "select",
    { id, onchange: onChange },
    ...models.map(({ name }) => element("option", { value: name, text: name })),
  );
  if (models.length > 1) container.append(element("label", { for: id, text: "Model" }), select);
  return select;
}
