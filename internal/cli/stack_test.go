package cli_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/cli"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestStackOfPanic: what is told of an attempt that ended of a panic has its stack.
func TestStackOfPanic(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("BIDE_HOME", home)
	st, err := journal.OpenStore(home)
	if err != nil {
		t.Fatal(err)
	}
	j, err := st.Create(journal.Header{Name: "w", Kind: "mapreduce", Path: "/w.yml"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = j.PutItems(t.Context(), func(yield func(event.Item, error) bool) {
		yield(event.Item{Index: 1, ID: "one", Data: json.RawMessage(`"one"`)}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	const stack = `goroutine 7 [running]:\nexample.com/ours.(*Thing).Do`
	err = j.RecordAll([]event.Event{
		{Type: event.RunStarted, Label: "w"},
		{Type: event.ItemStarted, Phase: "map", Item: "one", Index: 1, Attempt: 1},
		{Type: event.AttemptFailed, Phase: "map", Step: "map.agent_template[0]", Item: "one", Index: 1, Attempt: 1, Class: "panic", Message: "panic: boom",
			Data: json.RawMessage(`{"stdout":"","stderr":"","failure":{"stack":"` + stack + `"}}`)},
		{Type: event.ItemFinished, Phase: "map", Item: "one", Index: 1, Status: event.DeadLettered, Attempts: 1, Class: "panic", Message: "panic: boom",
			Data: json.RawMessage(`{"class":"panic","message":"panic: boom","stack":"` + stack + `","attempt":1,"eligible":true}`)},
		{Type: event.RunFinished, Status: event.CompletedWithFailures},
	})
	if cerr := j.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	for _, args := range [][]string{{"logs"}, {"logs", "--json"}, {"dlq", "show", "last", "one"}, {"dlq", "show", "last", "one", "--json"}} {
		var out, errw bytes.Buffer
		if status := cli.Main(args, strings.NewReader(""), &out, &errw); status != 0 {
			t.Errorf("%q: exit status %d: %s", args, status, errw.String())
		}
		if !strings.Contains(out.String(), "(*Thing).Do") {
			t.Errorf("%q has no stack:\n%s", args, out.String())
		}
	}
}
