package canary

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Stream is a page of the metrics server that ends with its reader.
const Stream = "/page/events"

// readStream is how long Pages reads the stream.
const readStream = time.Second

// Pages returns what the servers of a manager show, by path. The addresses are the ones that
// controller.Options.OnListen gets, by the names of the servers: "metrics server", "health server" and
// "profile server". Two of them serve /debug/manager, with and without a query. Packed profiles are unpacked. further has paths of the metrics server with a query.
func Pages(ctx context.Context, addresses map[string]string, further ...string) (map[string]string, error) {
	paths := map[string][]string{
		"metrics server": append([]string{"/metrics", "/debug/manager?follow=false", "/debug/tree", "/page/", Stream}, further...),
		"health server":  {"/healthz", "/readyz", "/readyz?level=Converged"},
		"profile server": {"/debug/manager", "/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"},
	}
	for _, profile := range []string{"heap", "allocs", "goroutine", "threadcreate", "block", "mutex"} {
		for _, form := range []string{"?debug=0", "?debug=1", "?debug=2"} {
			paths["profile server"] = append(paths["profile server"], "/debug/pprof/"+profile+form)
		}
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	shown := map[string]string{}
	for server, served := range paths {
		for _, path := range served {
			ctx, cancel := ctx, func() {}
			if path == Stream {
				ctx, cancel = context.WithTimeout(ctx, readStream)
			}
			status, text, err := get(ctx, client, "http://"+addresses[server]+path)
			if path == Stream && status == http.StatusOK {
				err = nil // Its time is over.
			}
			cancel()
			if err == nil && status != http.StatusOK && server != "health server" {
				err = fmt.Errorf("the answer has the code %d: %s", status, text)
			}
			if err != nil {
				return nil, fmt.Errorf("canary: get %s of the %s: %w", path, server, err)
			}
			shown[path] = text
		}
	}
	return shown, nil
}

// Follow reads the stream of a metrics server until ctx ends. It returns all that was read.
func Follow(ctx context.Context, address string) (string, error) {
	_, text, err := get(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+address+Stream)
	if ctx.Err() != nil {
		return text, nil
	}
	return text, err
}

// get returns the code of an answer, and its unpacked body.
func get(ctx context.Context, client *http.Client, url string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		var packed *gzip.Reader
		if packed, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(packed)
		}
	}
	return answer.StatusCode, string(body), err
}
