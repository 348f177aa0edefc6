package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errRaced is the error of a write that another replica overtook. It is tried again at once.
var errRaced = errors.New("another replica was faster")

// loaded is a pair, and when to load again.
type loaded struct {
	*pair
	renew time.Time // zero if an event says so
}

// load returns the pair to use. It issues one if the server does so, and the old one is missing, not valid
// or near its end.
func (k *keeper) load(ctx context.Context, now time.Time) (loaded, error) {
	switch {
	case k.options.Certificates.Folder != "":
		return k.loadFolder(now)
	case k.secret.Name == "":
		return k.loadMemory(now)
	}
	secret := &corev1.Secret{}
	err := k.api.secrets.get(ctx, k.secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return loaded{}, err
	}
	if k.options.Certificates.External {
		if missing {
			return loaded{}, err
		}
		held, err := newPair(secret.Data, k.target.host(), now)
		if err != nil {
			return loaded{}, fmt.Errorf("the Secret %s cannot be used: %w", k.secret, err)
		}
		return loaded{pair: held}, nil
	}
	held, wrong := newPair(secret.Data, k.target.host(), now)
	if wrong == nil {
		if renew := k.renewalOf(held); now.Before(renew) {
			return loaded{held, renew}, nil
		}
		wrong = errors.New("the certificate expires soon")
	}
	if missing {
		wrong = errors.New("there is no Secret")
	}
	return k.issueInto(ctx, secret, missing, wrong, now)
}

// renewalOf returns when a certificate is replaced: when a third of its lifetime is left.
func (s *Server) renewalOf(held *pair) time.Time {
	return held.leaf.NotAfter.Add(-s.timings.lifetime / 3)
}

// issueInto issues a certificate, and writes it to the Secret unless another replica has changed it.
func (k *keeper) issueInto(ctx context.Context, secret *corev1.Secret, missing bool, why error, now time.Time) (loaded, error) {
	entries, err := issue(k.target.hosts(), k.timings.lifetime, now)
	if err != nil {
		return loaded{}, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	held, err := newPair(entries, k.target.host(), now)
	if err != nil {
		return loaded{}, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	stored := &corev1.Secret{}
	if missing {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.secret.Namespace, Name: k.secret.Name},
			Type:       corev1.SecretTypeTLS, Data: entries,
		}
		err = k.api.secrets.create(ctx, made, stored)
	} else {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		for name, value := range entries { // Other entries are not the server'k.
			secret.Data[name] = value
		}
		err = k.api.secrets.update(ctx, secret, stored)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), !missing && apierrors.IsNotFound(err):
		return loaded{}, fmt.Errorf("%w: %w", errRaced, err)
	case err != nil:
		return loaded{}, err
	}
	k.log.Info("webhook certificate issued", "secret", k.secret.String(), "reason", why, "expires", held.leaf.NotAfter.UTC(), "serial", held.leaf.SerialNumber.Text(16))
	return loaded{held, k.renewalOf(held)}, nil
}

// loadMemory returns the pair in memory. It issues one if there is none, or if it is near its end.
func (k *keeper) loadMemory(now time.Time) (loaded, error) {
	for _, held := range []*pair{k.incoming, k.served.Load()} {
		if held.isValid(now) && now.Before(k.renewalOf(held)) {
			return loaded{held, k.renewalOf(held)}, nil
		}
	}
	entries, err := issue(k.target.hosts(), k.timings.lifetime, now)
	if err != nil {
		return loaded{}, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	held, err := newPair(entries, k.target.host(), now)
	if err != nil {
		return loaded{}, fmt.Errorf("cannot issue a certificate: %w", err)
	}
	return loaded{held, k.renewalOf(held)}, nil
}

// loadFolder reads the pair from files.
func (k *keeper) loadFolder(now time.Time) (loaded, error) {
	folder := k.options.Certificates.Folder
	entries := map[string][]byte{}
	for _, name := range []string{entryCertificate, entryKey, entryAuthorities} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		switch {
		case errors.Is(err, os.ErrNotExist) && name == entryAuthorities:
		case err != nil:
			return loaded{}, fmt.Errorf("cannot read a certificate: %w", err)
		}
		entries[name] = content
	}
	held, err := newPair(entries, k.target.host(), now)
	if err != nil {
		return loaded{}, fmt.Errorf("the files of %s cannot be used: %w", folder, err)
	}
	return loaded{pair: held}, nil
}
