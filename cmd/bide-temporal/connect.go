package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/cluster"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// connect connects to the server that TEMPORAL_* and the configuration file name.
func connect(logs io.Writer) (client.Client, error) {
	opt, err := options()
	if err != nil {
		return nil, fmt.Errorf("the connection to Temporal (TEMPORAL_*): %w", err)
	}
	opt.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})))
	c, err := newCrypt(os.Getenv(KeyFile))
	if err != nil {
		return nil, err
	}
	opt.DataConverter, opt.FailureConverter = payloadsWith(c), failures(c)
	address := cmp.Or(opt.HostPort, client.DefaultHostPort)
	conn, err := client.Dial(opt)
	if err != nil {
		return nil, notConnected(address, err, opt.ConnectionOptions.TLS != nil)
	}
	return conn, nil
}

// options are those of the environment and of the configuration file. A certificate that is
// renewed on the disk is the one of the next connection.
func options() (client.Options, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return client.Options{}, err
	}
	opt, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if own, t := profile.TLS, opt.ConnectionOptions.TLS; err == nil && t != nil && own != nil && own.ClientCertPath != "" {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(own.ClientCertPath, own.ClientKeyPath)
			return &cert, err
		}
	}
	return opt, err
}

// answerWait is for how long a worker waits for a server that does not answer in time before
// it gives up. The SDK does so, too, while a worker works.
const answerWait = 2 * time.Minute

// patiently does what needs an answer of the server, again after a while if there was none
// that comes.
func patiently(comes func(error) bool, do func() error) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := do()
		if err == nil || !comes(err) || time.Since(began) > answerWait {
			return err
		}
		fmt.Fprintf(os.Stderr, "the Temporal server does not answer, trying again: %v\n", err)
		time.Sleep(cluster.HoldOf(try))
	}
}

// slow reports whether the server did not answer in time, and away whether it may be there
// again soon.
func slow(err error) bool {
	return errors.As(err, new(*serviceerror.DeadlineExceeded)) || errors.Is(err, context.DeadlineExceeded)
}

func away(err error) bool { return slow(err) || errors.As(err, new(*serviceerror.Unavailable)) }

// notConnected says why there is no connection, and what to do about it. For a handshake
// that failed, gRPC gives only a text.
func notConnected(address string, err error, encrypted bool) error {
	text := err.Error()
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	what, advice := "no connection with the Temporal server at "+address, ""
	switch {
	case errors.As(err, new(*serviceerror.PermissionDenied)) || has("Unauthenticated"):
		what = "the Temporal server at " + address + " refuses this process"
		advice = "is TEMPORAL_API_KEY, or the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH, one that it takes, and valid still?"
	case has("unknown authority"):
		advice = "TEMPORAL_TLS_SERVER_CA_CERT_PATH names a file with the certificate of the authority"
	case has("certificate is valid for", "is not valid for", "cannot validate certificate for"):
		advice = "is it another server? TEMPORAL_TLS_SERVER_NAME is the name in its certificate, where TEMPORAL_ADDRESS has another one"
	case has("expired or is not yet valid"):
		advice = "renew the server's certificate, or set the clock of this machine"
	case has("first record does not look like a TLS handshake"):
		advice = "the server does not speak TLS: leave out TEMPORAL_TLS, TEMPORAL_TLS_… and TEMPORAL_API_KEY, or set TEMPORAL_TLS=false"
	case encrypted && has("tls: ", "broken pipe", "EOF", "connection reset"):
		advice = "does the server want a certificate? TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH name one, which an authority of the server has signed and which is valid still"
	case has("server preface"):
		advice = "does the server speak TLS? Set TEMPORAL_TLS=true"
	default:
		what = "no Temporal server at " + address
		advice = "TEMPORAL_ADDRESS names another, and `bide cluster dev` starts one"
	}
	return fmt.Errorf("%s: %w; %s", what, err, advice)
}

// failures converts errors that go through the server: their texts are encrypted if there
// is a key.
func failures(c crypt) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: payloadsWith(c), EncodeCommonAttributes: c.aead != nil})
}

// payloads compresses the data that goes through the server.
func payloads() converter.DataConverter { return payloadsWith(crypt{}) }

// payloadsWith compresses the data and then encrypts it, if there is a key.
func payloadsWith(c crypt) converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c, converter.NewZlibCodec(converter.ZlibCodecOptions{}))
}

// withoutNamespace adds to an error what to do about it, if it says that the server does
// not have the namespace.
func withoutNamespace(err error) error {
	if n := (*serviceerror.NamespaceNotFound)(nil); errors.As(err, &n) {
		return fmt.Errorf("%w: TEMPORAL_NAMESPACE names another, and `temporal operator namespace create` makes one", err)
	}
	return err
}
