package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
)

// TestAForeachFindsItsWidth: the loop runs one more round at once while all slots are used
// and rounds take no longer. It halves the number when a round is refused. It never runs
// more rounds than it says.
func TestAForeachFindsItsWidth(t *testing.T) {
	t.Parallel()
	v := &virtual{took: time.Second, limited: "limited", fails: func(string, int, time.Duration) bool { return false }}
	inTime(t, v, func(b *bench) {
		values := strings.Repeat("a, ", 30)
		r := b.run("commands: [{foreach: [" + values + "limited, " + values + "b], continue_on_error: true, parallel: {min: 1, max: 8}, do: [{http: 'http://example.test/${item}'}]}]\n")
		var got []int
		width, at := 0, 0
		refused := false
		for _, e := range r.events {
			switch e.Type {
			case event.WidthChanged:
				if strings.Contains(e.Message, "a rate limit") {
					refused = true
					if e.Total != width/2 {
						t.Errorf("%d at once where a refusal met %d", e.Total, width)
					}
				}
				width = e.Total
				got = append(got, width)
			case event.RoundStarted:
				if at++; at > width {
					t.Errorf("%d rounds run, where %d may", at, width)
				}
			case event.RoundFinished:
				at--
			}
		}
		if !refused || len(got) < 4 || !slices.Equal(got[:4], []int{1, 2, 3, 4}) {
			t.Errorf("the widths are %v, refused %v", got, refused)
		}
	})
}

const eachFlow = `
name: each
commands:
  - foreach: seq 1 16
    parallel: {min: 1, max: 4}
    do:
      - shell: echo "done ${item}" >> $EV/log
`

// TestTheWidthOfAForeachGoesOnAfterAKill: a resume continues with the last recorded width,
// and every value is done.
func TestTheWidthOfAForeachGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	carried := false
	killedAtEach(t, eachFlow, 60, 60, 0, func(k *kill) {
		if !k.resume() {
			return
		}
		at, lives := 0, 0
		for _, e := range k.events {
			switch e.Type {
			case event.RunResumed:
				lives++
			case event.WidthChanged:
				if want := fmt.Sprintf(", %d before", at); at > 0 && !strings.Contains(e.Message, want) {
					t.Errorf("event %d: %q follows a width of %s", k.at, e.Message, strconv.Itoa(at))
				}
				carried = carried || lives > 0 && at > 1
				at = e.Total
			}
		}
		lines := k.lines()
		slices.Sort(lines)
		if n := len(slices.Compact(lines)); n != 16 || k.state.Status != event.Succeeded {
			t.Errorf("event %d: %d values, %s", k.at, n, k.state.Status)
		}
	})
	if !carried {
		t.Error("no resume continued with a width that was found out")
	}
}
