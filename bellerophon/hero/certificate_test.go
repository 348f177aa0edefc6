package hero

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/servertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAHeroWithTLSWaitsForItsSecretAndOutlivesARenewal has an operator and members that talk by TLS. The Secret comes late, and
// is renewed while the hero grows.
func TestAHeroWithTLSWaitsForItsSecretAndOutlivesARenewal(t *testing.T) {
	w := newWorld(t)
	w.create(heroName, map[string]any{"replicas": int64(1), "tls": map[string]any{"secretName": "certificate"}})
	w.eventually("the hero says that the Secret is missing", func() error {
		degraded := meta.FindStatusCondition(w.hero(heroName).Status.Conditions, v1.ConditionDegraded)
		if degraded == nil || degraded.Reason != "NoCertificate" || !strings.Contains(degraded.Message, "certificate, which spec.tls.secretName names") {
			return fmt.Errorf("%+v", degraded)
		}
		return nil
	})
	names := []string{"*.bellerophon-members." + w.namespace + ".svc", "bellerophon." + w.namespace + ".svc"}
	signing := servertest.NewAuthority(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "certificate"}, Type: corev1.SecretTypeTLS, Data: signing.Issue(names...)}
	secrets := w.core.CoreV1().Secrets(w.namespace)
	secret, err := secrets.Create(w.ctx, secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.ready()

	// New members get the new certificate. The first one has the former one until its kubelet writes the files anew.
	secret.Data = signing.Issue(names...)
	if _, err := secrets.Update(w.ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.change(`{"spec":{"replicas":3}}`)
	hero := w.ready()
	if hero.Status.ReadyReplicas != 3 || hero.Status.Leader == "" {
		t.Errorf("the status is %+v", hero.Status)
	}
	w.change(`{"spec":{"config":{"log-level":"debug"}}}`) // All members restart, with the new certificate.
	w.ready()
}

func TestACertificateThatMembersCannotUseIsRefusedWithAWayOut(t *testing.T) {
	hero := &v1.Bellerophon{ObjectMeta: metav1.ObjectMeta{Name: "hero", Namespace: "home"}}
	now, names := time.Now(), []string{"*.hero-members.home.svc", "hero.home.svc"}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for want, leaf := range map[string]*x509.Certificate{
		"":                      {NotAfter: now.Add(time.Hour), DNSNames: names, ExtKeyUsage: both},
		"it has expired on":     {NotAfter: now.Add(-time.Hour), DNSNames: names, ExtKeyUsage: both},
		`the use "client auth"`: {NotAfter: now.Add(time.Hour), DNSNames: names, ExtKeyUsage: both[:1]},
		"it needs the DNS names *.hero-members.home.svc and hero.home.svc": {NotAfter: now.Add(time.Hour), DNSNames: names[:1], ExtKeyUsage: both},
	} {
		if err := serves(hero, leaf, time.Now()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
