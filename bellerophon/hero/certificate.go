package hero

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// authorityKey is the key of the authorities in a Secret, as cert-manager writes it.
const authorityKey = "ca.crt"

// certificateOf returns how the operator talks to the members of a hero, and the version of its certificate. Without TLS
// both are empty. The Secret is read from the API server, so that the cache holds no keys.
func (r *reconciler) certificateOf(ctx context.Context, hero *v1.Bellerophon) (*tls.Config, string, error) {
	if hero.Spec.TLS == nil {
		return nil, "", nil
	}
	name := types.NamespacedName{Namespace: hero.Namespace, Name: hero.Spec.TLS.SecretName}
	secret, err := controller.GetLive[*corev1.Secret](ctx, r.client, name)
	if apierrors.IsNotFound(err) {
		return nil, "", noCertificate("there is no Secret %s, which spec.tls.secretName names; create it with %s, %s and %s", name.Name, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, authorityKey)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the Secret %s: %w", name.Name, err)
	}
	own, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, "", noCertificate("the Secret %s has no valid certificate: %v", name.Name, err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(secret.Data[authorityKey]) {
		return nil, "", noCertificate("the Secret %s has no authority in %s", name.Name, authorityKey)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: trusted}, secret.ResourceVersion, nil
}

// noCertificate returns a problem with a Secret, which the operator does not watch.
func noCertificate(format string, details ...any) error {
	return problem{reason: "NoCertificate", message: fmt.Sprintf(format, details...), recheck: recheckSoon}
}
