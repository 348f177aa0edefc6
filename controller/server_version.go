package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// ErrOldServer is returned by Run if the API server is older than Kubernetes 1.35. Only since that version does the API say
// which of two resource versions of a kind is newer (KEP-5504). The levels of sync, and that no older state of an object
// replaces a newer one, rest on it.
var ErrOldServer = errors.New("the API server does not promise that resource versions can be compared, which the cache needs; use Kubernetes 1.35 or newer")

var oldestServer = apiversion.MajorMinor(1, 35)

// The pauses between questions for the version, while no server answers.
const (
	firstVersionPause = time.Second
	lastVersionPause  = 30 * time.Second
)

// checkServer asks the API server for its version until it answers, and fails if that is too old. A server that keeps its
// version to itself, or has one that is not understood, is tried.
func (m *Manager) checkServer(ctx context.Context) error {
	if m.tape != nil && m.tape.replay != nil {
		return nil // The answers are of the server that was recorded.
	}
	config := rest.CopyConfig(m.config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, m.http)
	if err != nil {
		return err
	}
	for pause := firstVersionPause; ; pause = min(2*pause, lastVersionPause) {
		answer, err := client.Get().AbsPath("/version").Do(opening(ctx)).Raw()
		var refused apierrors.APIStatus
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			return m.acceptServer(answer)
		case errors.As(err, &refused) && refused.Status().Code < 500:
			m.log.Warn("the version of the API server is not known", "error", err)
			return nil
		}
		timer := time.NewTimer(pause) // The sources report the failure.
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// acceptServer returns an error if an answer about the version is of an old server.
func (m *Manager) acceptServer(answer []byte) error {
	var info version.Info
	err := json.Unmarshal(answer, &info)
	if err == nil {
		var served *apiversion.Version
		if served, err = apiversion.ParseGeneric(info.GitVersion); err == nil {
			if served.LessThan(oldestServer) {
				return fmt.Errorf("%s runs Kubernetes %s: %w", m.config.Host, info.GitVersion, ErrOldServer)
			}
			return nil
		}
	}
	m.log.Warn("the version of the API server is not known", "error", err)
	return nil
}
