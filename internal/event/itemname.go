package event

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// longestName is how many runes of an item's value are in its name.
const longestName = 40

// Name is what a person knows an item by, where the file gives it no label: the
// id that the list gave it; its value, where that is a text; or else its id with
// the beginning of what it is, as in "12 (13)".
func (it Item) Name() string {
	if strings.Trim(it.ID, "0123456789") != "" {
		return it.ID
	}
	is := it.brief()
	switch {
	case is == "" || is == it.ID:
		return it.ID
	case it.Data[0] == '"' && is[0] != '"' && strings.Trim(is, "0123456789") != "" && strings.TrimSpace(is) == is && !strings.HasSuffix(is, "…"):
		return is
	case it.ID == "":
		return is
	}
	return it.ID + " (" + is + ")"
}

// telling are the members that tell what an object is, the most telling first.
var telling = []string{"name", "title", "path", "file", "key", "url"}

// brief is the beginning of an item's value in one line.
func (it Item) brief() string {
	data := bytes.TrimSpace(it.Data)
	if len(data) == 0 {
		return ""
	}
	var text string
	switch data[0] {
	case '"', '{':
		is, err := value.Parse(data)
		if err != nil {
			return ""
		}
		members, _ := is.(map[string]any)
		text, _ = is.(string)
		for i := 0; text == "" && i < len(telling); i++ {
			text, _ = members[telling[i]].(string)
		}
	}
	if text == "" {
		var b bytes.Buffer
		if json.Compact(&b, data) != nil {
			return ""
		}
		text = b.String()
	}
	text = diag.Clip(text, longestName)
	if at := strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }); at >= 0 {
		return text[:at] + "…"
	}
	return text
}
