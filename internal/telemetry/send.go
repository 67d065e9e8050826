package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bide-dev/bide/backoff"
	"github.com/bide-dev/bide/retry"
	"github.com/bide-dev/bide/retry/driver"
)

// sender sends one signal.
type sender struct {
	Endpoint
	client *http.Client
	out    io.Writer // of Console
}

func newSender(e Endpoint, out io.Writer) (*sender, error) {
	s := &sender{Endpoint: e, out: out}
	if e.Exporter != OTLP {
		return s, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if e.Certificate != "" || e.ClientCert != "" {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if e.Certificate != "" {
			pem, err := os.ReadFile(e.Certificate)
			if err != nil {
				return nil, err
			}
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s has no certificate in PEM form", e.Certificate)
			}
		}
		if e.ClientCert != "" {
			pair, err := tls.LoadX509KeyPair(e.ClientCert, e.ClientKey)
			if err != nil {
				return nil, err
			}
			cfg.Certificates = []tls.Certificate{pair}
		}
		transport.TLSClientConfig = cfg
	}
	s.client = &http.Client{Transport: transport, Timeout: e.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

// statusError is an answer of a collector that is none of success.
type statusError struct {
	status int
	text   string
	after  time.Duration
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the collector answered %d %s", e.status, http.StatusText(e.status))
	if e.text != "" {
		s += ": " + e.text
	}
	return s
}
func (e *statusError) HTTPStatus() int                   { return e.status }
func (e *statusError) RetryAfter() (time.Duration, bool) { return e.after, e.after > 0 }

// The answers after which the protocol wants another attempt.
func again(err error) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status == 429 || e.status == 502 || e.status == 503 || e.status == 504
	}
	return true
}

// send sends a message, again where the collector was not ready, until ctx ends.
func (s *sender) send(ctx context.Context, m proto.Message) error {
	if s.Exporter == Console {
		b, err := encode(m, true)
		if err == nil {
			_, err = s.out.Write(append(b, '\n'))
		}
		return err
	}
	body, err := encode(m, s.JSON)
	if err != nil {
		return err
	}
	if s.Gzip {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = z.Bytes()
	}
	return retry.Do(ctx, patient, func(ctx context.Context) error { return s.post(ctx, body) })
}

// patient outlasts a collector that starts again.
var patient = retry.Must(retry.New(retry.Policy{
	Attempts: 5, If: again, Backoff: backoff.Schedule{Initial: 500 * time.Millisecond, Max: 5 * time.Second, Jitter: backoff.Full},
}))

func (s *sender) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", map[bool]string{false: "application/x-protobuf", true: "application/json"}[s.JSON])
	if s.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	for k, v := range s.Headers {
		req.Header.Set(k, v)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // for the message alone
	if resp.StatusCode/100 == 2 {
		return nil
	}
	e := &statusError{status: resp.StatusCode}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/") {
		e.text = strings.TrimSpace(strings.ToValidUTF8(string(text), "\ufffd"))
	}
	if d, ok := driver.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		e.after = d
	}
	return e
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
