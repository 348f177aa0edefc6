package hero

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"

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
	if err := serves(hero, own.Leaf, controller.Now(ctx)); err != nil {
		return nil, "", noCertificate("members cannot use the certificate of the Secret %s: %v", name.Name, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: trusted}, secret.ResourceVersion, nil
}

// serves returns an error unless the members of a hero can use a certificate among themselves, and for clients. Authorities in
// between may be in the files of the members only, so a chain is not verified.
func serves(hero *v1.Bellerophon, leaf *x509.Certificate, now time.Time) error {
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("it has expired on %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	for _, address := range []string{addressOf(hero, podName(hero, 0)), fmt.Sprintf("%s.%s.svc:%d", hero.Name, hero.Namespace, port)} {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		if err := leaf.VerifyHostname(host); err != nil {
			return fmt.Errorf("it needs the DNS names *.%s.%s.svc and %s.%s.svc: %w", membersService(hero), hero.Namespace, hero.Name, hero.Namespace, err)
		}
	}
	// RFC 5280, section 4.2.1.12: a certificate without the extension has all uses.
	for use, name := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server auth", x509.ExtKeyUsageClientAuth: "client auth"} {
		if len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, use) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return fmt.Errorf("it needs the use %q: a member is a server and a client of the others", name)
		}
	}
	return nil
}

// noCertificate returns a problem with a Secret, which the operator does not watch.
func noCertificate(format string, details ...any) error {
	return problem{reason: "NoCertificate", message: fmt.Sprintf(format, details...), recheck: recheckSoon}
}
