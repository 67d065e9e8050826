package timeline

import (
	"errors"
	"testing"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestLabelsOfItems: the label of an item's step has the item's values; what the item does
// not have stays as the file says it, and so does the item of a foreach, which is another.
func TestLabelsOfItems(t *testing.T) {
	h := journal.Header{Path: "m.yml", Kind: "mapreduce", Source: []byte(`mode: mapreduce
secrets: {KEY: swordfish}
map:
  input: items.json
  agent_template:
    - shell: echo ${item.file} ${item_index} of ${item_total}
    - shell: echo ${item.file} ${shell.output} ${later}
    - name: compile
      shell: cc ${item.file}
    - foreach: [x]
      do: [{shell: 'echo ${item}'}]
    - shell: echo ${item.key}
    - shell: echo ${item.none}
`)}
	l := LabelsOf(h, 9)
	item := func() (event.Item, error) {
		return event.Item{Index: 3, ID: "2", Data: []byte(`{"file":"a.c","key":"swordfish"}`)}, nil
	}
	for path, want := range map[string]string{
		"map.agent_template[0]":         "echo a.c 2 of 9",
		"map.agent_template[1]":         "echo a.c ${shell.output} ${later}",
		"map.agent_template[2]":         "compile",
		"map.agent_template[3].do[0]@1": "echo ${item}",
		"map.agent_template[4]":         "echo ***",
		"map.agent_template[5]":         "echo ${item.none}",
		"map.agent_template[9]":         "",
	} {
		if got := l.Of(path, "", item); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := l.Of("map.agent_template[0]", "", func() (event.Item, error) { return event.Item{}, errors.New("gone") }); got != "echo ${item.file} ${item_index} of ${item_total}" {
		t.Errorf("without the item: %q", got)
	}
	if got := l.Of("map.agent_template[0]", "as recorded", item); got != "as recorded" {
		t.Errorf("a label without variables: %q", got)
	}
}
