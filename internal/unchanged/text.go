package unchanged

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// because notes why an item runs.
func (c *comparison) because(index int, kind, why string) {
	c.counts[kind]++
	if kind == whyUnknown {
		if _, known := c.unsure[why]; !known && len(c.unsure) >= mostReasons {
			why = "it has changed"
		}
		c.unsure[why]++
	}
	c.m.why.set(index, why)
}

func noPrint(run string) string { return "run " + run + " does not say on what it has worked" }

// text is what was decided, for a person.
func (c *comparison) text(total int) string {
	switch {
	case c.m.All:
		return fmt.Sprintf("all %d items run, whatever is unchanged since an earlier run (--all)", total)
	case c.unchanged == 0 && c.counts[whyNew] == len(c.items):
		return fmt.Sprintf("no earlier run has ended any of the %d items: all run", total)
	}
	var text string
	if c.unchanged > 0 {
		text = fmt.Sprintf("%d of %d items %s unchanged since %s", c.unchanged, total, diag.Plural(c.unchanged, "is", "are"), cmp.Or(c.since, "an earlier run"))
	} else {
		text = fmt.Sprintf("none of %d items is unchanged", total)
	}
	var parts []string
	for _, k := range [...]struct{ kind, text string }{
		{whyNew, "new"}, {whyFailed, "that did not end well the last time"}, {whySteps, "whose steps changed"},
		{whyValues, "whose parameters or environment changed"}, {whyFiles, "whose files changed"},
	} {
		if n := c.counts[k.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k.text))
		}
	}
	unsure := slices.SortedFunc(maps.Keys(c.unsure), func(a, b string) int { return cmp.Or(c.unsure[b]-c.unsure[a], strings.Compare(a, b)) })
	other := c.counts[whyUnknown]
	for i, why := range unsure {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("%d for other reasons, which bide events --type item_started has", other))
			break
		}
		parts = append(parts, fmt.Sprintf("%d as %s", c.unsure[why], why))
		other -= c.unsure[why]
	}
	if n := total - c.unchanged; n > 0 {
		text += fmt.Sprintf("; %d run: %s", n, strings.Join(parts, ", "))
	}
	return text
}

// reasons are why items run: one byte for each item, and each reason once.
type reasons struct {
	of   []uint8
	text []string
}

// mostReasons bounds the reasons that differ. Those beyond it are one.
const mostReasons = 254

func (w *reasons) set(index int, why string) {
	if more := index - len(w.of); more > 0 {
		w.of = slices.Grow(w.of, more)[:index]
	}
	i := slices.Index(w.text, why)
	if i < 0 && len(w.text) >= mostReasons {
		why = "it has changed"
		i = slices.Index(w.text, why)
	}
	if i < 0 {
		w.text = append(w.text, why)
		i = len(w.text) - 1
	}
	w.of[index-1] = uint8(i + 1)
}

func deflated(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(b)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil
	}
	return out.Bytes()
}

// restoreWhy takes the reasons that an earlier life of the run has found, for the
// items that have not begun.
func (m *Map) restoreWhy(ctx context.Context) error {
	items := &m.State.Items
	for e, err := range m.Journal.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.ItemsCompared}}) {
		if err != nil {
			return err
		}
		var d compared
		if json.Unmarshal(e.Data, &d) != nil || len(d.Of) == 0 {
			return nil // an older version's
		}
		of, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(d.Of)), int64(m.Total)))
		if err != nil {
			return fmt.Errorf("map.skip_unchanged: the recorded reasons: %w", err)
		}
		for i, n := range of {
			if at := items.At(i + 1); int(n) > len(d.Reasons) || at.Status != journal.ItemPending || at.Attempts > 0 {
				of[i] = 0
			}
		}
		m.why = reasons{of: of, text: d.Reasons}
		return nil
	}
	return nil
}

// Why is why an item runs; "" where nobody has asked.
func (m *Map) Why(index int) string {
	if index > len(m.why.of) || m.why.of[index-1] == 0 {
		return ""
	}
	return m.why.text[m.why.of[index-1]-1]
}
