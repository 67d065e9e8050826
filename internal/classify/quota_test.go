package classify_test

import (
	"testing"
	"time"

	"github.com/bide-dev/bide/internal/classify"
)

func TestQuotaStops(t *testing.T) {
	warsaw, err := time.LoadLocation("Europe/Warsaw")
	if err != nil {
		t.Skip(err)
	}
	now := time.Date(2026, 11, 22, 1, 20, 0, 0, warsaw).UTC() // a Sunday
	for text, want := range map[string]time.Duration{
		"You've hit your session limit · resets 4:20am (Europe/Warsaw)": 3 * time.Hour,
		"You've hit your session limit · resets 1am (Europe/Warsaw)":    23*time.Hour + 40*time.Minute,
		"You've hit your limit · resets 12pm (Europe/Warsaw)":           10*time.Hour + 40*time.Minute,
		"5-hour limit reached ∙ resets 3am (Europe/Warsaw)":             100 * time.Minute,
		"Weekly limit reached ∙ resets Mon 9:20am (Europe/Warsaw)":      32 * time.Hour,
		"Weekly limit reached ∙ resets Nov 24, 1:20am (Europe/Warsaw)":  48 * time.Hour,
		// Between the agent's words and their reading time passes.
		"You've hit your session limit · resets 1:20am (Europe/Warsaw)": 0,
		"You've hit your session limit · resets 1:15am (Europe/Warsaw)": 0,
		"Weekly limit reached ∙ resets Sun 1:20am (Europe/Warsaw)":      0,
		"Weekly limit reached ∙ resets Sun 1:15am (Europe/Warsaw)":      0,
		"Weekly limit reached ∙ resets Sun 1am (Europe/Warsaw)":         7*24*time.Hour - 20*time.Minute,
		"Weekly limit reached ∙ resets Nov 22, 1:20am (Europe/Warsaw)":  0,
		"Weekly limit reached ∙ resets Nov 21, 9am (Europe/Warsaw)":     0,
		"Monthly limit reached ∙ resets Jan 2, 1:20am (Europe/Warsaw)":  41 * 24 * time.Hour,
		"Weekly limit reached":                                                                                                          -1,
		"Claude AI usage limit reached|1795306800":                                                                                      0,
		`{"error":{"type":"usage_limit_reached","resets_in_seconds":14000}}`:                                                            14000 * time.Second,
		"You've hit your usage limit. Upgrade to Pro or try again in 3 hours 12 minutes.":                                               192 * time.Minute,
		"You've hit your usage limit. Try again in 2 days 1 hour.":                                                                      49 * time.Hour,
		"You have exhausted your capacity on this model. Your quota will reset after 18h7m.":                                            18*time.Hour + 7*time.Minute,
		"Your quota will reset after 18h7m12s.":                                                                                         18*time.Hour + 7*time.Minute + 12*time.Second,
		"You've hit your usage limit. To purchase more credits or try again at Nov 24th, 2026 12:20 AM.":                                48 * time.Hour,
		"You have exhausted your daily quota on this model.":                                                                            -1,
		`429 Too Many Requests: {"retryDelay": "34s"}`:                                                                                  34 * time.Second,
		"429 RESOURCE_EXHAUSTED. Please retry in 1.5s.":                                                                                 1500 * time.Millisecond,
		"ERROR: exceeded your current quota, rate limit reached. Please try again in 20s":                                               20 * time.Second,
		"API Error: Rate limit reached":                                                                                                 -1,
		"Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29900, Requested 406. Please try again in 812ms.":      812 * time.Millisecond,
		"Rate limit reached for gpt-5 on requests per day (RPD). Please try again in 7m12s.":                                            7*time.Minute + 12*time.Second,
		"Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1m2.5s.":                                             62500 * time.Millisecond,
		"429 RESOURCE_EXHAUSTED. You exceeded your current quota. Please retry in 34.5s.":                                               34500 * time.Millisecond,
		"You've hit your usage limit. Visit the settings to purchase more credits or try again at 3:20 AM.":                             3 * time.Hour,
		"exceeded retry limit, last status: 429 Too Many Requests, request id: 9f1":                                                     -1,
		`[API Error: {"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}]`: -1,
		`API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:                                    -1,
		"API Error: Repeated 529 Overloaded errors":                                                                                     -1,
	} {
		if !classify.Text(text).RateLimited {
			t.Errorf("%q is taken for no limit", text)
		}
		d, ok := classify.Reset(text, now)
		switch {
		case want < 0 && ok, want >= 0 && !ok, want >= 0 && d != want:
			t.Errorf("%q: %v, %v; want %v", text, d, ok, want)
		}
	}
	for _, text := range []string{
		"Prompt is too long", "Credit balance is too low",
		"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
		"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
		"API Error: Claude Code is unable to respond to this request, which appears to violate our Usage Policy.",
		"I wrote the rate limiter", "the limit is 5", "the session has ended", "done: reset after 5m is handled"} {
		if classify.Text(text).RateLimited {
			t.Errorf("%q is taken for a limit", text)
		}
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]int64{
		"codex\nDone.\ntokens used\n12,345\n":                 12345,
		"[2025-10-06T09:00:00] tokens used: 1_234\n":          1234,
		"tokens used: 7\nmore\nTokens used: 9\n":              9,
		"tokens used\r\n1.234\r\n":                            1234,
		"I counted the tokens used 12 times":                  0,
		"tokens used: many":                                   0,
		"tokens used: 99999999999999999999999999999999999999": 0,
		"the report says tokens used: 12":                     0,
	} {
		if n := classify.Tokens("", text); n != want {
			t.Errorf("%q: %d tokens, want %d", text, n, want)
		}
	}
}

// TestMidnightHasJustPassed: a moment that has just passed may be yesterday's.
func TestMidnightHasJustPassed(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 3, 0, 0, time.UTC) // a Friday
	for text, want := range map[string]time.Duration{
		"session limit reached ∙ resets 11:59pm":         0,
		"session limit reached ∙ resets 11:50pm":         23*time.Hour + 47*time.Minute,
		"session limit reached ∙ resets Thu 11:59pm":     0,
		"session limit reached ∙ resets Dec 31, 11:59pm": 0,
		"session limit reached ∙ resets Jan 1, 12:05am":  2 * time.Minute,
	} {
		if d, ok := classify.Reset(text, now); !ok || d != want {
			t.Errorf("%q: %v, %v; want %v", text, d, ok, want)
		}
	}
}
