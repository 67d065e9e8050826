package engine_test

import (
	"os"
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
)

// TestAnsweredControlIsOnRecord: a request is removed only when its effect is on record. So
// what was confirmed to the user survives a kill.
func TestAnsweredControlIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("flow.yml", "commands:\n  - shell: echo begun >> $EV/log; until [ -e $EV/go ]; do sleep 0.02; done\n")
	p := b.start("bide", "run", "-q", "flow.yml")
	b.until("begun")
	store, err := journal.OpenStore(b.home)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Read("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range 6 {
		do := []string{journal.Pause, journal.Continue}[i%2]
		if err := r.RequestControl(journal.ControlRequest{PID: os.Getpid(), Time: time.Now(), Do: do}); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); r.ControlRequested(); {
			if time.Now().After(end) {
				t.Fatal("nobody takes the request")
			}
		}
		told := 0
		for e, err := range r.Events(t.Context(), 1, journal.EventFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == event.RunControlled {
				told++
			}
		}
		if told != i+1 {
			t.Errorf("%d requests are answered, and %d on record", i+1, told)
		}
	}
	b.touch("go")
	if status := p.wait(t); status != 0 {
		t.Errorf("exit status %d: %s", status, p.text())
	}
}
