package org.sparkpace.bridge;
import java.io.*;
import java.nio.file.*;
import java.security.*;
import java.security.cert.*;
import javax.net.ssl.*;

/** TLS that trusts the cluster's own CA and no other (controller/machine/tls.py): a server that answers under it is the master. */
final class Pinned {
  static SSLContext to(Path ca) {
    try (InputStream in = Files.newInputStream(ca)) {
      KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
      trusted.load(null, null);
      trusted.setCertificateEntry("sparkpace", CertificateFactory.getInstance("X.509").generateCertificate(in));
      TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      factory.init(trusted);
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(null, factory.getTrustManagers(), null);
      return context;
    } catch (NoSuchFileException e) {
      throw new IllegalStateException("there is no CA file " + ca + "; the first `sparkpace up` makes it,"
          + " and --conf spark.pace.ca.file=FILE names a copy", e);
    } catch (IOException | GeneralSecurityException e) {
      throw new IllegalStateException("the CA file " + ca + " cannot be used (" + e.getMessage() + "); it must be a certificate in PEM", e);
    }
  }

  /** True if the other side failed to prove itself, rather than being away. */
  static boolean refused(Throwable e) {
    for (; e != null; e = e.getCause()) if (e instanceof CertificateException || e instanceof CertPathValidatorException) return true;
    return false;
  }
}
