package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// readyTimeout allows for very busy machines. A start usually takes seconds.
	readyTimeout = 3 * time.Minute
	// readyInterval is the interval between requests, because there is no event
	// to wait for.
	readyInterval = 50 * time.Millisecond
)

// waitReady waits until a program reports at a URL that it is ready. It fails if one of the children
// exits.
func waitReady(ctx context.Context, client *http.Client, program, url string, children *family) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("it took longer than %v", readyTimeout))
	defer cancel()
	defer context.AfterFunc(children.ctx, cancel)()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	last := errors.New("none")
	for {
		err := askReady(ctx, client, url)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // An error caused by the end of ctx explains nothing.
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if cause := context.Cause(children.ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("wait until %s is ready: %w (its last answer: %w)", program, context.Cause(ctx), last)
		}
	}
}

func askReady(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
