package option_test

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/internal/option"
)

// TestRows holds each row to what its readers rely on.
func TestRows(t *testing.T) {
	keys, calls, flags := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, r := range option.Table() {
		if r.Doc == "" || r.Example == "" || r.In == 0 {
			t.Errorf("%s lacks a sentence, an example or a place", r.Name)
		}
		if option.ByName(r.Name) != r {
			t.Errorf("two options are named %s", r.Name)
		}
		if r.In&option.File != 0 {
			for _, key := range r.Spellings() {
				if other, taken := keys[key]; taken {
					t.Errorf("%s is a spelling of %s and of %s", key, other, r.Name)
				}
				keys[key] = r.Name
			}
		}
		if r.In&option.Call != 0 && calls[r.CallName()] {
			t.Errorf("two options of pipelines are named %s", r.CallName())
		}
		if r.In&option.Command != 0 && flags[r.FlagName()] {
			t.Errorf("two flags are named %s", r.FlagName())
		}
		calls[r.CallName()], flags[r.FlagName()] = r.In&option.Call != 0, r.In&option.Command != 0
	}
}

// TestOver lays a policy over another, option by option; the parameters of a
// strategy go with its name.
func TestOver(t *testing.T) {
	var base, own option.Settings
	set := func(s *option.Settings, name string, v any) { option.ByName(name).Set(s, v) }
	set(&base, "attempts", 7)
	set(&base, "backoff", "linear")
	set(&base, "increment", 2*time.Second)
	set(&base, "jitter", backoff.Full)
	set(&own, "initial_delay", 4*time.Second)
	resolved := func() option.Settings {
		laid := own.Over(base)
		return laid.Resolve(option.File)
	}
	got := resolved()
	if got.Attempts != 7 || got.Backoff.Base(2) != 6*time.Second || got.Jitter != backoff.Full || got.Max != 30*time.Second {
		t.Errorf("%+v", got)
	}
	set(&own, "backoff", "exponential")
	set(&own, "attempts", 2)
	got = resolved()
	if got.Attempts != 2 || got.Backoff.Base(2) != 8*time.Second || got.Has("increment") {
		t.Errorf("%+v", got)
	}
	if pol := got.Policy(); pol.Attempts != 2 || pol.Backoff.Base(1) != 4*time.Second {
		t.Errorf("%+v", pol)
	}
}
