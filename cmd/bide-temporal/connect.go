package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// connect dials the server that TEMPORAL_* and the configuration file name.
func connect(logs io.Writer) (client.Client, error) {
	opt, err := envconfig.LoadDefaultClientOptions()
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
		return nil, fmt.Errorf("no Temporal server at %s: %w; TEMPORAL_ADDRESS names another, and `bide cluster dev` starts one", address, err)
	}
	return conn, nil
}

// failures are errors as they go through the server: what they say is encrypted
// where there is a key.
func failures(c crypt) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: payloadsWith(c), EncodeCommonAttributes: c.aead != nil})
}

// payloads compresses what goes through the server.
func payloads() converter.DataConverter { return payloadsWith(crypt{}) }

// payloadsWith compresses it and then encrypts it, where there is a key.
func payloadsWith(c crypt) converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c, converter.NewZlibCodec(converter.ZlibCodecOptions{}))
}
