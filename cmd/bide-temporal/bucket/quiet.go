package bucket

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
)

// transportOf is how a server is reached. AWS_CA_BUNDLE names certificates of authorities that
// are trusted beside those of the system, as it does for other programs.
func transportOf(secure bool) (*http.Transport, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	t.DialContext = (&net.Dialer{Timeout: silence, KeepAlive: silence}).DialContext
	t.ResponseHeaderTimeout = silence
	path := os.Getenv("AWS_CA_BUNDLE")
	if !secure || path == "" {
		return t, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	pool := t.TLSClientConfig.RootCAs
	if pool == nil {
		if pool, err = x509.SystemCertPool(); err != nil {
			pool = x509.NewCertPool()
		}
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no certificate in PEM", path)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// isCertificate reports whether the certificate of a server is not trusted.
func isCertificate(err error) bool {
	return errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.CertificateInvalidError))
}

// quiet has an answer end with an error where nothing more of it comes for some time: a
// server may be frozen amid it, or be gone without a word.
type quiet struct {
	http.RoundTripper
	limit time.Duration
}

func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	a, err := q.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	a.Body = &awaited{ReadCloser: a.Body, cancel: cancel, limit: q.limit}
	return a, nil
}

// awaited is an answer of which each read has its time.
type awaited struct {
	io.ReadCloser
	cancel context.CancelFunc
	limit  time.Duration
}

func (a *awaited) Read(b []byte) (int, error) {
	late := time.AfterFunc(a.limit, a.cancel)
	n, err := a.ReadCloser.Read(b)
	if !late.Stop() && err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("nothing more of the answer came within %v", a.limit)
	}
	return n, err
}

func (a *awaited) Close() error {
	err := a.ReadCloser.Close()
	a.cancel()
	return err
}
