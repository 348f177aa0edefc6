package controller_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestAddressesAndCertificatesThatProtectNothingAreRefused(t *testing.T) {
	files := controller.CertificateFiles{File: "tls.crt", KeyFile: "tls.key"}
	for _, test := range []struct {
		options controller.Options
		want    string
	}{
		{controller.Options{Protection: "tls"}, `manager: Protection is "tls"; allowed are ProtectedInCluster, Protected and Unprotected`},
		{controller.Options{MetricsAddress: "8080"}, `manager: MetricsAddress is "8080": it is no address with a port; give host:port`},
		{controller.Options{HealthAddress: ":http"}, `manager: HealthAddress is ":http": the port is "http"; allowed is 0 to 65535`},
		{controller.Options{MetricsAddress: ":8080"}, `manager: MetricsAddress is ":8080", which other machines reach, and outside of the cluster nothing protects it; give a loopback address`},
		{controller.Options{ProfileAddress: "10.0.0.1:0"}, `manager: ProfileAddress is "10.0.0.1:0", which other machines reach`},
		{controller.Options{Certificate: files}, "manager: Certificate is given, but the servers are plain HTTP here"},
		{controller.Options{Certificate: controller.CertificateFiles{File: "a"}, Protection: controller.Protected}, `manager: Certificate has File "a" and KeyFile ""; give both`},
		{controller.Options{Certificate: files, Protection: controller.Protected}, "manager: reading Certificate.File: open tls.crt"},
	} {
		made, err := controller.NewManager(&rest.Config{}, scheme.Scheme, test.options)
		if made != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
	for _, options := range []controller.Options{
		{MetricsAddress: "localhost:0", ProfileAddress: "[::1]:0", HealthAddress: ":8081"},
		{MetricsAddress: "127.8.0.1:80", ProfileAddress: "[::ffff:127.0.0.1]:0"},
		{MetricsAddress: ":8080", Protection: controller.Protected},
		{MetricsAddress: ":8080", Protection: controller.Unprotected},
	} {
		if _, err := controller.NewManager(&rest.Config{}, scheme.Scheme, options); err != nil {
			t.Errorf("%+v are refused: %v", options, err)
		}
	}
}

func TestAProtectionIsReadAsItIsWritten(t *testing.T) {
	for _, want := range []controller.Protection{controller.ProtectedInCluster, controller.Protected, controller.Unprotected} {
		text, err := want.MarshalText()
		var got controller.Protection
		if err != nil || got.UnmarshalText(text) != nil || got != want {
			t.Errorf("%q is written as %s and read as %q: %v", want, text, got, err)
		}
	}
	err := new(controller.Protection).UnmarshalText([]byte("none"))
	if err == nil || err.Error() != `protection is "none"; allowed are auto, protected and unprotected` {
		t.Errorf("the error is %v", err)
	}
}

// endpoints are the addresses of a running manager, by the first word of the server's name.
type endpoints map[string]string

// serve runs a manager with all servers until the test ends.
func serve(t *testing.T, config *rest.Config, options controller.Options) endpoints {
	t.Helper()
	addresses := make(chan [2]string, 3)
	options.MetricsAddress, options.HealthAddress, options.ProfileAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	options.Logger = slog.New(slog.DiscardHandler)
	options.OnListen = func(server string, address net.Addr) {
		name, _, _ := strings.Cut(server, " ")
		addresses <- [2]string{name, address.String()}
	}
	options.OnError = func(error) {}
	made, err := controller.NewManager(config, scheme.Scheme, options)
	if err != nil {
		t.Fatal(err)
	}
	add(t, made, nothing)
	group := lifecycle.New(t.Context())
	group.Go("manager", made.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	found := endpoints{}
	for range 3 {
		server := <-addresses
		found[server[0]] = server[1]
	}
	return found
}

// fetch returns the answer to a request with a token, and the certificate of the server.
func fetch(ctx context.Context, url, token string) (code int, said string, by *x509.Certificate, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// Each request makes a connection, whose certificate the test looks at.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if answer.TLS != nil {
		by = answer.TLS.PeerCertificates[0]
	}
	return answer.StatusCode, string(content), by, err
}

// wantFetched checks the answer to a request with a token, and returns the certificate of the server.
func wantFetched(t *testing.T, url, token string, code int, says string) *x509.Certificate {
	t.Helper()
	got, said, by, err := fetch(t.Context(), url, token)
	if err != nil || got != code || !strings.Contains(said, says) {
		t.Fatalf("%s answers %d %.200q, want %d %q: %v", url, got, said, code, says, err)
	}
	return by
}

// writeCertificate writes a certificate and its key for a name, as tls.crt and tls.key.
func writeCertificate(t *testing.T, folder, name string) controller.CertificateFiles {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	files := controller.CertificateFiles{File: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key")}
	must(os.WriteFile(files.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	must(os.WriteFile(files.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return files
}

func TestProtectedServersTalkTLSAndHealthStaysOpen(t *testing.T) {
	found := serve(t, &rest.Config{Transport: transport(silent)}, controller.Options{Protection: controller.Protected})
	for path, server := range map[string]string{"/metrics": "metrics", "/debug/pprof/heap": "profile", "/debug/manager": "profile"} {
		by := wantFetched(t, "https://"+found[server]+path, "", http.StatusUnauthorized, "send the header Authorization")
		if err := by.VerifyHostname("127.0.0.1"); err != nil || time.Until(by.NotAfter) < 24*time.Hour {
			t.Errorf("the certificate is for %v until %v: %v", by.IPAddresses, by.NotAfter, err)
		}
		wantFetched(t, "http://"+found[server]+path, "", http.StatusBadRequest, "HTTP request to an HTTPS server")
	}
	wantFetched(t, "http://"+found["health"]+"/healthz", "", http.StatusOK, "ok")
}

func TestAServerFollowsTheFilesOfItsCertificate(t *testing.T) {
	folder := t.TempDir()
	files := writeCertificate(t, folder, "first")
	found := serve(t, &rest.Config{Transport: transport(silent)}, controller.Options{Protection: controller.Protected, Certificate: files})
	serves := func(when, name string) {
		t.Helper()
		by := wantFetched(t, "https://"+found["metrics"]+"/metrics", "", http.StatusUnauthorized, "")
		if len(by.DNSNames) != 1 || by.DNSNames[0] != name {
			t.Errorf("%s the certificate is for %q, want %s", when, by.DNSNames, name)
		}
	}
	serves("at first", "first")
	writeCertificate(t, folder, "second")
	serves("after a change", "second")
	key, err := os.ReadFile(files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	writeCertificate(t, folder, "third")
	next, err := os.ReadFile(files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for when, content := range map[string][]byte{"halfway through a change": key, "with an empty key": nil} {
		if err := os.WriteFile(files.KeyFile, content, 0o600); err != nil {
			t.Fatal(err)
		}
		serves(when, "second")
	}
	if err := os.Remove(files.KeyFile); err != nil {
		t.Fatal(err)
	}
	serves("without a key", "second")
	if err := os.WriteFile(files.KeyFile, next, 0o600); err != nil {
		t.Fatal(err)
	}
	serves("after the whole change", "third")
}

func TestAServiceAccountReadsTheMetricsIfItsRoleAllowsIt(t *testing.T) {
	admin := clustertest.Shared(t).AdminConfig()
	namespace := clustertest.Namespace(t)
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// account creates a ServiceAccount, and returns a token for an audience.
	account := func(name string, audiences ...string) string {
		t.Helper()
		accounts := client.CoreV1().ServiceAccounts(namespace)
		if _, err := accounts.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			must(err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		made, err := accounts.CreateToken(t.Context(), name, request, metav1.CreateOptions{})
		must(err)
		return made.Status.Token
	}
	bind := func(role, name string) {
		t.Helper()
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		}
		_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
		must(err)
		t.Cleanup(func() {
			must(client.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{}))
		})
	}
	_, err = client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(err)
	t.Cleanup(func() {
		must(client.RbacV1().ClusterRoles().Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
	})
	prometheus, jane, operator, bare := account("prometheus"), account("jane"), account("operator"), account("bare")
	bind(namespace, "prometheus")
	bind("system:auth-delegator", "operator")

	of := func(token string) endpoints {
		config := rest.AnonymousClientConfig(admin)
		config.BearerToken = token
		return serve(t, config, controller.Options{Namespaces: []string{namespace}, Protection: controller.Protected})
	}
	found := of(operator)
	wantFetched(t, "https://"+found["metrics"]+"/metrics", prometheus, http.StatusOK, "bellerophon_sync_level")
	wantFetched(t, "https://"+found["profile"]+"/debug/pprof/heap", prometheus, http.StatusForbidden, `"system:serviceaccount:`+namespace+`:prometheus" may not get this URL`)
	wantFetched(t, "https://"+found["metrics"]+"/metrics", jane, http.StatusForbidden, "may not get this URL")
	wantFetched(t, "https://"+found["metrics"]+"/metrics", jane+"x", http.StatusUnauthorized, "does not accept the token")
	wantFetched(t, "https://"+found["metrics"]+"/metrics", account("prometheus", "vault"), http.StatusUnauthorized, "another audience")

	// A certificate that the API server accepts is accepted here, too.
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	must(os.WriteFile(authorities, admin.CAData, 0o600))
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = operator
	found = serve(t, config, controller.Options{Namespaces: []string{namespace}, Protection: controller.Protected, ClientAuthorities: authorities})
	certificate, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	must(err)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+found["profile"]+"/debug/manager", nil)
	must(err)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	must(err)
	content, err := io.ReadAll(answer.Body)
	must(err)
	must(answer.Body.Close())
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(content), `"controllers"`) {
		t.Errorf("with a certificate of the cluster the answer is %d %s", answer.StatusCode, content)
	}
	wantFetched(t, "https://"+found["metrics"]+"/metrics", prometheus, http.StatusOK, "bellerophon_sync_level")

	found = of(bare)
	wantFetched(t, "https://"+found["metrics"]+"/metrics", prometheus, http.StatusServiceUnavailable, "bind it to the ClusterRole system:auth-delegator")
}

func TestAMetricHasTheEndOfTheCertificate(t *testing.T) {
	registry := prometheus.NewRegistry()
	serve(t, &rest.Config{Transport: transport(silent)}, controller.Options{
		Protection: controller.Protected, Certificate: writeCertificate(t, t.TempDir(), "first"), Registry: registry,
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "bellerophon_server_certificate_expiry_timestamp_seconds" {
			continue
		}
		end := time.Unix(int64(family.GetMetric()[0].GetGauge().GetValue()), 0)
		if left := time.Until(end); left < 50*time.Minute || left > time.Hour { // See writeCertificate.
			t.Errorf("the certificate ends in %v, want an hour", left)
		}
		return
	}
	t.Error("the metric is missing")
}
